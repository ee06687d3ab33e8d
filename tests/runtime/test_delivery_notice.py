"""What the user is told of telemetry that does not arrive: when, how often, and what it came to."""

import pytest

from runtime.delivery_notice import DeliveryNotice, say_what_was_dropped
from runtime.telemetry.delivery import DeliveryStats
from runtime.telemetry.emitter import TelemetryStats

A, B = "http://a:4318", "https://b:4318"


def stats(
    endpoint: str,
    failures: int,
    reason: str = "",
    *,
    sent: int = 0,
    buffered: int = 0,
    control: int = 0,
    detail: int = 0,
) -> DeliveryStats:
    return DeliveryStats(
        endpoint=endpoint,
        sent=sent,
        rejected=0,
        buffered=buffered,
        dropped={"control": control, "detail": detail},
        failures=failures,
        last_failure=reason,
        cpu_seconds=0.0,
    )


def actor(*endpoints: DeliveryStats) -> TelemetryStats:
    return TelemetryStats(endpoints=endpoints, cpu_seconds=0.0)


def test_an_endpoint_that_fails_is_named_at_once_and_then_once_a_minute(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = [0.0]
    told = DeliveryNotice(monotonic=lambda: now[0])

    def observe(at: float, failures: int, *, elsewhere: int = 0) -> str:
        now[0] = at
        told.observe(
            {
                "the trainer": actor(
                    stats(A, failures, f"HTTP 401, {failures}", buffered=7, control=1, detail=2)
                ),
                "rollouter 0": actor(stats(A, failures, "HTTP 401"), stats(B, elsewhere, "no answer")),
            }
        )
        return capsys.readouterr().err

    assert observe(0, 0) == ""
    assert observe(1, 1) == (
        f"asyncrl run: telemetry of the trainer to {A}: HTTP 401, 1; 7 spans waiting, 3 dropped\n"
    )
    assert observe(60, 30) == "", "within the minute"
    assert observe(60.5, 30, elsewhere=1) == (
        f"asyncrl run: telemetry of rollouter 0 to {B}: no answer; 0 spans waiting, 0 dropped\n"
    )
    assert observe(100, 30, elsewhere=1) == "", "nothing has failed since"
    assert "HTTP 401, 31" in observe(101, 31, elsewhere=1)


def test_that_telemetry_arrives_again_is_said_once_when_all_whom_the_endpoint_failed_have_sent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = [0.0]
    told = DeliveryNotice(monotonic=lambda: now[0])

    def observe(at: float, **actors: tuple[int, int]) -> list[str]:
        now[0] = at
        told.observe(
            {name: actor(stats(A, failed, "HTTP 503", sent=sent)) for name, (failed, sent) in actors.items()}
        )
        return [line.removeprefix("asyncrl run: ") for line in capsys.readouterr().err.splitlines()]

    fails, works = (
        "telemetry of one to http://a:4318: HTTP 503; 0 spans waiting, 0 dropped",
        f"telemetry to {A} arrives again",
    )
    assert observe(0, one=(0, 5), two=(0, 5)) == []
    assert observe(1, one=(1, 5), two=(1, 5)) == [fails]
    assert observe(2, one=(1, 5), two=(1, 5)) == [], "it has not failed since, and not sent"
    assert observe(3, one=(1, 7), two=(1, 5)) == [], "the other has not"
    assert observe(4, one=(2, 9), two=(1, 6)) == [], "and now the first again"
    assert observe(5, one=(2, 10), two=(1, 6)) == [works]
    assert observe(6, one=(2, 11), two=(1, 7)) == []
    assert observe(7, one=(3, 11), two=(1, 8)) == [], (
        "within the minute nothing is said of it, nor of its end"
    )
    assert observe(8, one=(3, 12), two=(1, 9)) == []
    assert observe(70, one=(4, 12), two=(2, 9)) == [fails]
    assert observe(71, one=(4, 13)) == [works], "an actor that is gone sends nothing more"
    assert observe(140, one=(5, 13)) == [fails]
    assert observe(141, two=(2, 9)) == [], "it failed one only, which is gone: nobody knows"
    assert observe(201, two=(3, 9)) == [fails.replace("one", "two")]


def test_what_was_dropped_is_said_once_for_each_endpoint(capsys: pytest.CaptureFixture[str]) -> None:
    say_what_was_dropped(
        [
            actor(stats(A, 3, "HTTP 503", control=2, detail=5), stats(B, 1, "no answer")),
            actor(stats(A, 4, "HTTP 401", control=1), stats(B, 0)),
            actor(stats(A, 0, control=1), stats(B, 0)),
        ]
    )
    assert capsys.readouterr().err == (
        f"asyncrl run: telemetry to {A} was lost: 4 control spans, without which versions are incomplete or missing, "
        "and 5 detail spans; HTTP 401\n"
    )
