"""Cases from the field: what stays and what goes when processes die, return, freeze, or share a series."""

import signal
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.exporter.conftest import StartedExporter, StartExporter
from tests.exporter.ledger_harness import Harness
from tests.page import check_page
from tests.wire import WATCHDOG_SECONDS, Emitter, Plain, Scrape, scrape_until

SLOT = "asyncrl.rollouter"


def queue_says(queue: Emitter, total: int, *, start: float, at: float) -> None:
    points = [
        queue.sum("asyncrl.samples.fed", total, start=start, at=at),
        queue.sum("asyncrl.samples", total, {"asyncrl.outcome": "trained"}, start=start, at=at),
        queue.gauge("asyncrl.samples.queued", 0, at=at),
        queue.gauge("asyncrl.samples.in_flight", 0, at=at),
    ]
    assert queue.post_metrics(*points).rejected == 0


def trained(page: Scrape) -> float | None:
    return page.value("asyncrl_samples_total", run="r", outcome="trained")


def test_c29_run_totals_go_on_over_a_killed_exporter_and_a_resumed_trainer(
    start_exporter: StartExporter,
) -> None:
    exporter = start_exporter()
    trainer = Emitter(exporter.otlp)
    queue = Emitter(exporter.otlp, role="queue", source="q0")
    queue_says(queue, 10_000, start=1.0, at=2.0)
    assert trainer.post(*trainer.window(1, [{"policy_loss": 1.0}] * 4)).rejected == 0
    seen = [trained(scrape_until(exporter.metrics, lambda page: trained(page) == 10_000))]

    exporter.stop(signal.SIGKILL)
    exporter = start_exporter(data_dir=exporter.data_dir)
    seen.append(
        trained(Scrape(exporter.metrics))
    )  # the first page: neither absent nor 0, so rate() sees no reset
    queue.url = exporter.otlp
    queue_says(queue, 10_000, start=1.0, at=2.0)  # what was sent again after the crash
    queue_says(queue, 10_200, start=1.0, at=3.0)
    seen.append(trained(scrape_until(exporter.metrics, lambda page: trained(page) == 10_200)))

    resumed = Emitter(exporter.otlp, source="t1", attempt=2)
    queue = Emitter(exporter.otlp, role="queue", source="q1", attempt=2)
    assert resumed.post(resumed.weight_sync(1, 0)).rejected == 0
    queue_says(queue, 0, start=10.0, at=11.0)  # the sums of a new process begin at 0
    seen.append(trained(Scrape(exporter.metrics)))
    queue_says(queue, 300, start=10.0, at=12.0)
    assert resumed.post(*resumed.window(2, [{"policy_loss": 2.0}] * 2)).rejected == 0
    page = scrape_until(exporter.metrics, lambda page: trained(page) == 10_500)
    assert seen == [10_000, 10_000, 10_200, 10_200]
    assert page.value("asyncrl_samples_fed_total", run="r") == 10_500
    scrape_until(exporter.metrics, lambda page: page.value("asyncrl_train_steps_total", run="r") == 6)
    check_page(page.text, page.content_type)


def decoding(page: Scrape) -> dict[str, float]:
    return page.by_label("asyncrl_rollouter_decoding", "rollouter", run="r")


def shows(wanted: dict[str, float], page: Scrape) -> bool:
    return decoding(page) == wanted


def two_workers(exporter: StartedExporter) -> list[Emitter]:
    workers = []
    for slot, busy in (("0", 7.0), ("1", 3.0)):
        worker = Emitter(exporter.otlp, role="rollouter", source=f"r{slot}")
        load = worker.gauge("asyncrl.rollouter.decoding", busy, {SLOT: slot})
        tokens = worker.sum("asyncrl.tokens.generated", 100, start=1.0)
        assert worker.post_metrics(load, tokens).rejected == 0
        workers.append(worker)
    scrape_until(exporter.metrics, lambda page: decoding(page) == {"0": 7.0, "1": 3.0})
    return workers


def test_c45_gauges_of_a_worker_that_ended_go_and_its_totals_stay(exporter: StartedExporter) -> None:
    first, _ = two_workers(exporter)
    assert first.post(first.run_end(0, "stopped")).rejected == 0
    page = scrape_until(exporter.metrics, lambda page: decoding(page) == {"1": 3.0})
    assert page.value("asyncrl_tokens_total", run="r", kind="generated") == 200


def test_c45_a_killed_worker_that_came_back_shows_what_the_new_one_says(exporter: StartedExporter) -> None:
    two_workers(exporter)
    again = Emitter(exporter.otlp, role="rollouter", source="r0 again")
    load = again.gauge("asyncrl.rollouter.decoding", 1.0, {SLOT: "0"})
    tokens = again.sum("asyncrl.tokens.generated", 5, start=2.0)
    assert again.post_metrics(load, tokens).rejected == 0
    page = scrape_until(exporter.metrics, lambda page: decoding(page) == {"0": 1.0, "1": 3.0})
    assert page.value("asyncrl_tokens_total", run="r", kind="generated") == 205


@pytest.mark.soak
def test_soak_c45_gauges_of_a_killed_worker_go_after_a_minute_and_its_totals_stay(
    exporter: StartedExporter,
) -> None:
    _, second = two_workers(exporter)

    def second_alone(page: Scrape) -> bool:
        load = second.gauge("asyncrl.rollouter.decoding", 3.0, {SLOT: "1"})
        assert second.post_metrics(load).rejected == 0
        return decoding(page) == {"1": 3.0}

    page = wait_long(exporter, second_alone)
    assert page.value("asyncrl_tokens_total", run="r", kind="generated") == 200


def wait_long(exporter: StartedExporter, condition: Callable[[Scrape], bool]) -> Scrape:
    for _ in range(3):  # the TTL is as long as the watchdog of one wait
        try:
            return scrape_until(exporter.metrics, condition)
        except AssertionError:
            continue
    raise AssertionError(f"not within {3 * WATCHDOG_SECONDS} s")


def test_c47_after_an_abort_of_everything_the_next_report_is_on_the_page(exporter: StartedExporter) -> None:
    rollouter = Emitter(exporter.otlp, role="rollouter", source="r0")
    queue = Emitter(exporter.otlp, role="queue", source="q0")
    for busy, state in ((64.0, "generating"), (0.0, "weight_sync")):
        at = {SLOT: "0"}
        assert (
            rollouter.post_metrics(
                rollouter.gauge("asyncrl.rollouter.decoding", busy, at),
                rollouter.gauge("asyncrl.rollouter.state", 1.0, at | {"asyncrl.state": state}),
            ).rejected
            == 0
        )
        account = [
            queue.sum("asyncrl.samples.fed", 64, start=1.0),
            queue.sum("asyncrl.samples", 64 - busy, {"asyncrl.outcome": "failed"}, start=1.0),
            queue.gauge("asyncrl.samples.in_flight", busy),
            queue.gauge("asyncrl.samples.queued", 0),
        ]
        assert queue.post_metrics(*account).rejected == 0
        page = scrape_until(exporter.metrics, partial(shows, {"0": busy}))
        assert page.value("asyncrl_samples_in_flight", run="r") == busy
        states = page.by_label("asyncrl_rollouter_state", "state", run="r", rollouter="0")
        assert {name for name, on in states.items() if on} == {state}
        check_page(page.text, page.content_type)


def test_c47_of_a_frozen_reporter_the_age_grows_and_the_values_expire() -> None:
    harness = Harness()
    rollouter = Emitter("", role="rollouter", source="r0")
    busy = rollouter.gauge("asyncrl.rollouter.decoding", 64.0, {SLOT: "0"})
    harness.post_metrics(rollouter, busy)
    (gauge,) = harness.ledger.live.runs["r"].values()
    heard = harness.run.sources["r0"].last_seen
    assert gauge.alive(harness.now + 59.0)
    assert not gauge.alive(harness.now + 61.0)
    harness.wait(61.0)
    assert harness.run.sources["r0"].last_seen == heard  # asyncrl_exporter_source_last_seen_timestamp_seconds


def test_c49_processes_that_share_a_series_add_up_and_none_is_a_reset(exporter: StartedExporter) -> None:
    def total(page: Scrape) -> float | None:
        return page.value("asyncrl_tokens_total", run="r", kind="generated")

    workers = {
        name: Emitter(exporter.otlp, role="rollouter", source=f"instance {name}") for name in ("a", "b", "c")
    }
    said: list[tuple[str, float]] = [
        ("a", 10.0),
        ("b", 3.0),
        ("a", 20.0),
        ("b", 6.0),
        ("a", 30.0),
        ("b", 9.0),
        ("a", 40.0),
        ("b", 12.0),
        ("c", 5.0),  # a restarted: its old series has ended, its new one begins at 0
    ]
    totals: list[float] = []
    newest: dict[str, float] = {}
    for second, (name, value) in enumerate(said):
        point: Any = workers[name].sum("asyncrl.tokens.generated", value, start=1.0, at=2.0 + second)
        assert workers[name].post_metrics(point).rejected == 0
        newest[name] = value
        scrape_until(exporter.metrics, lambda page: total(page) == sum(newest.values()))
        totals.append(sum(newest.values()))
    assert totals == sorted(totals)
    assert totals[-2] - totals[1] == 39  # a saw-tooth of both would read as 102
    assert totals[-1] == 57


def test_what_the_resource_says_in_another_type_is_understood_or_refused_never_ignored(
    exporter: StartedExporter,
) -> None:
    name = "asyncrl.run.attempt"
    attempts: dict[str, Plain] = {
        "text": "2",
        "double": 2.0,
        "word": "two",
        "fraction": 2.5,
        "truth": True,
        "0": "0",
    }
    for run, said in attempts.items():
        trainer = Emitter(exporter.otlp, run=run, source=run, resource={name: said})
        answer = trainer.post(trainer.train_step(1, 1), trainer.weight_sync(1, 1))
        assert answer.rejected == (0 if run in ("text", "double") else 2)
    limits: dict[str, Plain] = {"asyncrl.steps_per_version": "4", "asyncrl.staleness_limit": 0}
    wrong: dict[str, Plain] = {"asyncrl.steps_per_version": 0, "asyncrl.staleness_limit": -1}
    trainer = Emitter(exporter.otlp, run="limits", source="t0", resource=limits)
    assert trainer.post(trainer.train_step(1, 1)).rejected == 0
    trainer = Emitter(exporter.otlp, run="limits", source="t1", resource=wrong)
    assert trainer.post(trainer.train_step(1, 2), trainer.weight_sync(1, 2)).rejected == 0
    page = Scrape(exporter.metrics)
    assert page.by_label("asyncrl_run_attempt", "run") == {"text": 2, "double": 2, "limits": 1}
    assert page.by_label("asyncrl_steps_per_version", "run") == {"limits": 4}
    assert page.by_label("asyncrl_staleness_limit_versions", "run") == {"limits": 0}
    assert page.value("asyncrl_rejected_records_total", run="limits", reason="bad_value") == 2
