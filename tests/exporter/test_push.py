"""OTLP push from a started exporter to a receiver that takes, refuses, throttles and goes away."""

import signal
import time
from collections.abc import Iterator
from itertools import chain, pairwise
from pathlib import Path
from random import Random

import pytest
import requests
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from tests.exporter.conftest import StartedExporter, StartExporter
from tests.otlp_sink import OtlpSink, PointSeen, Reply
from tests.wire import WATCHDOG_SECONDS, Emitter, Scrape, scrape_until


@pytest.fixture
def sink() -> Iterator[OtlpSink]:
    with OtlpSink() as receiver:
        yield receiver


def train(
    exporter: StartedExporter, versions: range, *, run: str = "r", trainer: Emitter | None = None
) -> Emitter:
    """Versions of two steps, the loss of the first being the version's number and of the second 0.5 more."""
    trainer = trainer or Emitter(exporter.otlp, run=run, source=f"trainer of {run}")
    trainer.url = exporter.otlp
    windows = [
        trainer.window(version, [{"policy_loss": float(version)}, {"policy_loss": version + 0.5}])
        for version in versions
    ]
    answer = trainer.post(*chain.from_iterable(windows))
    assert (answer.status, answer.rejected) == (200, 0), answer.reason
    return trainer


def losses(sink: OtlpSink, run: str = "r") -> list[PointSeen]:
    return named(sink, "asyncrl_policy_loss", run)


def named(sink: OtlpSink, name: str, run: str = "r") -> list[PointSeen]:
    return [point for point in sink.points if point.name == name and point.attributes["run"] == run]


def history(exporter: StartedExporter, run: str = "r") -> dict[int, float]:
    """The loss of every version, by its time in nanoseconds."""
    answer = requests.get(f"{exporter.metrics}/api/v1/runs/{run}/versions", timeout=WATCHDOG_SECONDS).json()
    return {
        round(version["timestamp"] * 1e9): version["metrics"]["policy_loss"] for version in answer["versions"]
    }


def check_exact(sink: OtlpSink, exporter: StartedExporter, versions: range, run: str = "r") -> None:
    """Every version once, in order, each series of it at the version's time."""
    points = losses(sink, run)
    assert [point.value for point in points] == [version + 0.25 for version in versions]
    assert all(before.time_ns < after.time_ns for before, after in pairwise(points))
    at_version = named(sink, "asyncrl_param_version", run)
    assert [point.value for point in at_version] == list(versions)
    assert [point.time_ns for point in at_version] == [point.time_ns for point in points]
    said = history(exporter, run)
    # JSON has the time as a double of seconds: half a microsecond is lost there.
    assert [pytest.approx(time_ns, abs=1000) for time_ns in said] == [point.time_ns for point in points]
    assert list(said.values()) == [point.value for point in points]
    assert_nothing_twice(sink)


def assert_nothing_twice(sink: OtlpSink) -> None:
    at = [(point.name, tuple(sorted(point.attributes.items())), point.time_ns) for point in sink.points]
    assert len(at) == len(set(at))


def test_every_version_is_pushed_once_at_its_time_under_the_names_of_the_page(
    start_exporter: StartExporter, sink: OtlpSink
) -> None:
    exporter = start_exporter("--push", sink.url)
    train(exporter, range(1, 8))
    sink.wait_for(lambda: len(losses(sink)) == 7)
    check_exact(sink, exporter, range(1, 8))
    page = scrape_until(exporter.metrics, lambda page: page.value("asyncrl_exporter_push_queue") == 0)
    latest = {(point.name, frozenset(point.attributes.items())): point.value for point in sink.points}
    on_page = {
        (name, labels): value for (name, labels), value in page.samples.items() if (name, labels) in latest
    }
    alone = {"asyncrl_version_train_steps", "asyncrl_version_samples", "asyncrl_version_complete"}
    alone.add("asyncrl_version_published_timestamp_seconds")  # on the page these have version labels
    assert {name for name, _ in latest.keys() - on_page.keys()} == alone
    assert {key: latest[key] for key in on_page} == on_page
    assert all(point.kind == "gauge" for point in sink.points)
    points = page.value("asyncrl_exporter_push_points_total", outcome="accepted")
    assert points == len(sink.points)


@pytest.mark.parametrize("journal_mode", ["wal", "rollback"])
def test_runs_are_told_apart_by_an_attribute_of_the_points(
    start_exporter: StartExporter, sink: OtlpSink, journal_mode: str
) -> None:
    exporter = start_exporter("--push", sink.url, "--journal-mode", journal_mode)
    one, other = (
        Emitter(exporter.otlp, run="one", source="t1"),
        Emitter(exporter.otlp, run="two", source="t2"),
    )
    for version in range(1, 21):
        train(exporter, range(version, version + 1), run="one", trainer=one)
        train(exporter, range(version, version + 1), run="two", trainer=other)
    sink.wait_for(lambda: len(losses(sink, "one")) + len(losses(sink, "two")) == 40)
    check_exact(sink, exporter, range(1, 21), "one")
    check_exact(sink, exporter, range(1, 21), "two")


def test_an_outage_of_the_receiver_loses_nothing_and_repeats_nothing(start_exporter: StartExporter) -> None:
    with OtlpSink() as nobody:
        port, url = nobody.port, nobody.url
    exporter = start_exporter("--push", url)
    train(exporter, range(1, 151))
    page = scrape_until(
        exporter.metrics,
        lambda page: (
            page.value("asyncrl_exporter_push_queue") == 150
            and (page.value("asyncrl_exporter_push_requests_total", status="none") or 0) > 1
        ),
    )
    assert (page.value("asyncrl_exporter_push_queue_oldest_age_seconds") or 0) > 0
    with OtlpSink(port) as sink:
        sink.wait_for(lambda: len(losses(sink)) == 150)
        check_exact(sink, exporter, range(1, 151))
        scrape_until(exporter.metrics, lambda page: page.value("asyncrl_exporter_push_queue") == 0)
        assert Scrape(exporter.metrics).value("asyncrl_exporter_push_queue_oldest_age_seconds") == 0
        _, said = exporter.stop()
        assert said.index('event="push failed"') < said.index('event="push works again"')


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_restart_in_mid_queue_loses_nothing_and_repeats_nothing(
    start_exporter: StartExporter, sink: OtlpSink, number: signal.Signals
) -> None:
    sink.reply = lambda path, body: Reply(status=503)
    exporter = start_exporter("--push", sink.url)
    trainer = train(exporter, range(1, 11))
    sink.wait_for(lambda: len(sink.requests) > 1)
    exporter.stop(number)
    sink.reply = lambda path, body: Reply()
    exporter = start_exporter("--push", sink.url, data_dir=exporter.data_dir)
    sink.wait_for(lambda: len(losses(sink)) == 10)
    scrape_until(exporter.metrics, lambda page: page.value("asyncrl_exporter_push_queue") == 0)
    exporter.stop(number)  # with an empty queue, whose rows must not come back
    exporter = start_exporter("--push", sink.url, data_dir=exporter.data_dir)
    train(exporter, range(11, 21), trainer=trainer)
    sink.wait_for(lambda: len(losses(sink)) == 20)
    check_exact(sink, exporter, range(1, 21))


@pytest.mark.parametrize("kills", [2, pytest.param(100, marks=pytest.mark.soak)])
def test_kills_at_any_moment_lose_nothing_and_change_nothing(
    start_exporter: StartExporter, sink: OtlpSink, tmp_path: Path, kills: int
) -> None:
    chance = Random(kills)

    def slow_and_moody(path: str, body: bytes) -> Reply:
        time.sleep(chance.uniform(0.0, 0.05))
        return Reply(status=chance.choice([200, 200, 200, 429, 503]), headers={"Retry-After": "0"})

    sink.reply = slow_and_moody
    trainer = None
    for kill in range(kills):
        exporter = start_exporter("--push", sink.url, data_dir=tmp_path / "data")
        for part in range(4):
            first = 1 + 20 * kill + 5 * part
            trainer = train(exporter, range(first, first + 5), trainer=trainer)
        time.sleep(chance.uniform(0.0, 0.6))
        exporter.stop(signal.SIGKILL)
    exporter = start_exporter("--push", sink.url, data_dir=tmp_path / "data")
    scrape_until(exporter.metrics, lambda page: page.value("asyncrl_exporter_push_queue") == 0)
    stored: dict[tuple[object, ...], set[float]] = {}
    for point in sink.points:
        at = (point.name, tuple(sorted(point.attributes.items())), point.time_ns)
        stored.setdefault(at, set()).add(point.value)
    # A kill between the answer and its note on disk repeats a request: to a store the same points once more.
    assert all(len(values) == 1 for values in stored.values())
    assert sorted({point.value for point in losses(sink)}) == [v + 0.25 for v in range(1, 20 * kills + 1)]
    assert len({point.time_ns for point in losses(sink)}) == 20 * kills


def test_a_request_that_is_answered_while_the_exporter_stops_is_not_sent_again(
    start_exporter: StartExporter, sink: OtlpSink
) -> None:
    exporter = start_exporter("--push", sink.url)
    sink.hang()
    train(exporter, range(1, 4))
    sink.wait_for(lambda: sink.hanging == 1)
    exporter.process.send_signal(signal.SIGTERM)
    sink.answer()
    assert exporter.process.wait(WATCHDOG_SECONDS) == 0
    exporter = start_exporter("--push", sink.url, data_dir=exporter.data_dir)
    sink.wait_for(lambda: len(losses(sink)) == 3)
    scrape_until(exporter.metrics, lambda page: page.value("asyncrl_exporter_push_queue") == 0)
    check_exact(sink, exporter, range(1, 4))


def test_what_is_sealed_when_the_exporter_stops_is_pushed_before_it_ends(
    start_exporter: StartExporter, sink: OtlpSink
) -> None:
    exporter = start_exporter("--push", sink.url)
    train(exporter, range(1, 151))
    assert exporter.stop()[0] == 0
    assert [point.value for point in losses(sink)] == [version + 0.25 for version in range(1, 151)]
    assert_nothing_twice(sink)


def test_a_throttled_push_waits_as_long_as_it_is_told(start_exporter: StartExporter, sink: OtlpSink) -> None:
    asked_at: list[float] = []

    def throttle(path: str, body: bytes) -> Reply:
        asked_at.append(time.monotonic())
        return Reply(status=429, headers={"Retry-After": "2"}) if len(asked_at) <= 2 else Reply()

    sink.reply = throttle
    exporter = start_exporter("--push", sink.url)
    train(exporter, range(1, 4))
    sink.wait_for(lambda: len(losses(sink)) == 3)
    assert all(after - before >= 1.9 for before, after in pairwise(asked_at[:3]))
    check_exact(sink, exporter, range(1, 4))
    page = Scrape(exporter.metrics)
    assert page.value("asyncrl_exporter_push_requests_total", status=429) == 2
    assert page.value("asyncrl_exporter_push_dropped_total", reason="refused") == 0


def test_what_a_partial_success_rejects_is_counted_and_never_repeated(
    start_exporter: StartExporter, sink: OtlpSink
) -> None:
    sink.reply = lambda path, body: Reply(rejected=3, message="out of order")
    exporter = start_exporter("--push", sink.url)
    train(exporter, range(1, 2))
    sink.wait_for(lambda: len(losses(sink)) == 1)
    sink.reply = lambda path, body: Reply()
    train(exporter, range(2, 3), trainer=Emitter(exporter.otlp, run="other"), run="other")
    sink.wait_for(lambda: len(losses(sink, "other")) == 1)
    page = scrape_until(exporter.metrics, lambda page: page.value("asyncrl_exporter_push_queue") == 0)
    assert page.value("asyncrl_exporter_push_points_total", outcome="rejected") == 3
    assert page.value("asyncrl_exporter_push_points_total", outcome="accepted") == len(sink.points) - 3
    assert_nothing_twice(sink)


@pytest.mark.parametrize("status", [400, 413])
def test_one_version_that_is_refused_costs_no_other_one(
    start_exporter: StartExporter, sink: OtlpSink, status: int
) -> None:
    def refuse_13(path: str, body: bytes) -> Reply:
        metrics = ExportMetricsServiceRequest.FromString(body).resource_metrics[0].scope_metrics[0].metrics
        (loss,) = [metric for metric in metrics if metric.name == "asyncrl_policy_loss"]
        poison = any(point.as_double == 13.25 for point in loss.gauge.data_points)
        return Reply(status=status) if poison else Reply()

    sink.reply = lambda path, body: Reply(status=503)
    exporter = start_exporter("--push", sink.url)
    train(exporter, range(1, 31))
    sink.reply = refuse_13
    sink.wait_for(lambda: len(losses(sink)) == 29)
    assert [point.value for point in losses(sink)] == [v + 0.25 for v in range(1, 31) if v != 13]
    assert_nothing_twice(sink)
    page = scrape_until(exporter.metrics, lambda page: page.value("asyncrl_exporter_push_queue") == 0)
    assert page.value("asyncrl_exporter_push_dropped_total", reason="refused") == 1


def test_a_receiver_set_up_wrongly_costs_nothing_but_time(
    start_exporter: StartExporter, sink: OtlpSink
) -> None:
    statuses = iter([302, 401, 403, 404, 405, 415, 500, 502, 504])
    elsewhere = {"Location": "http://127.0.0.1:1/", "Retry-After": "0"}
    sink.reply = lambda path, body: Reply(status=next(statuses, 200), headers=elsewhere)
    exporter = start_exporter("--push", sink.url)
    train(exporter, range(1, 3))
    sink.wait_for(lambda: len(losses(sink)) == 2)
    assert [status for _, status in sink.requests] == [302, 401, 403, 404, 405, 415, 500, 502, 504, 200]
    check_exact(sink, exporter, range(1, 3))


def test_a_resume_goes_on_in_time_although_its_clock_is_behind(
    start_exporter: StartExporter, sink: OtlpSink
) -> None:
    exporter = start_exporter("--push", sink.url)
    train(exporter, range(1, 5))
    resumed = Emitter(exporter.otlp, source="resumed", attempt=2)
    resumed.now -= 3600
    resumed._steps = 4
    train(exporter, range(3, 6), trainer=resumed)
    sink.wait_for(lambda: len(losses(sink)) == 7)
    assert [point.value for point in named(sink, "asyncrl_param_version")] == [1, 2, 3, 4, 3, 4, 5]
    assert [point.value for point in named(sink, "asyncrl_run_attempt")] == [1, 1, 1, 1, 2, 2, 2]
    assert all(before.time_ns < after.time_ns for before, after in pairwise(losses(sink)))
    assert_nothing_twice(sink)


def test_an_annex_is_pushed_at_the_time_of_its_version_whenever_it_comes(
    start_exporter: StartExporter, sink: OtlpSink
) -> None:
    exporter = start_exporter("--push", sink.url)
    trainer = Emitter(exporter.otlp)
    early = trainer.span("validation", 1, values={"reward": 0.5}, end=trainer.now + 500)
    initial = trainer.span("validation", 0, values={"reward": 0.25})
    trainer.post(initial, early)
    train(exporter, range(1, 4), trainer=trainer)
    trainer.post(trainer.span("validation", 3, values={"reward": 0.75}))
    name = "asyncrl_version_validation_reward_mean"
    sink.wait_for(lambda: len(named(sink, name)) == 3 and len(losses(sink)) == 3)
    times = {point.value: point.time_ns for point in named(sink, "asyncrl_param_version")}
    assert {point.value: point.time_ns for point in named(sink, name)} == {
        0.25: initial.end_time_unix_nano,
        0.5: times[1],
        0.75: times[3],
    }
    assert all(set(point.attributes) == {"run"} for point in named(sink, name))


def test_the_partial_window_at_the_end_is_no_version_and_is_not_pushed(
    start_exporter: StartExporter, sink: OtlpSink
) -> None:
    exporter = start_exporter("--push", sink.url)
    trainer = train(exporter, range(1, 3))
    trainer.post(trainer.train_step(3, trainer._step(), values={"policy_loss": 3.0}), trainer.run_end(2))
    scrape_until(
        exporter.metrics,
        lambda page: page.value("asyncrl_version_complete", run="r", attempt=1, param_version=3) == 0,
    )
    sink.wait_for(lambda: len(losses(sink)) == 2)
    scrape_until(exporter.metrics, lambda page: page.value("asyncrl_exporter_push_queue") == 0)
    assert [point.value for point in named(sink, "asyncrl_param_version")] == [1, 2]


def test_series_of_a_rollouter_and_of_a_foreign_source_keep_their_labels(
    start_exporter: StartExporter, sink: OtlpSink
) -> None:
    exporter = start_exporter("--push", sink.url, "--grace", "1")
    trainer = Emitter(exporter.otlp, resource={"service.name": "verl"})
    trainer.post(
        trainer.train_step(1, 1, attributes={"asyncrl.reported.rollouter_idle_ratio": 0.4}),
        trainer.rollouter_window(1, "7", {"generating": 3.0, "waiting_prompts": 1.0}),
        trainer.weight_sync(1, 1),
    )
    sink.wait_for(lambda: bool(named(sink, "asyncrl_rollouter_idle_ratio")))
    (idle,) = named(sink, "asyncrl_rollouter_idle_ratio")
    assert (idle.value, idle.attributes) == (0.25, {"run": "r", "rollouter": "7"})
    (reported,) = named(sink, "asyncrl_reported_rollouter_idle_ratio")
    assert (reported.value, reported.attributes) == (0.4, {"run": "r", "source": "verl"})
