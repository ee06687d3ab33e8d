"""No number that a sender can write stops the writer, poisons a counter or outgrows the journal."""

from typing import Any

import msgspec
import pytest
import requests

from exporter.statistics import LARGEST_SUM, Distribution
from runtime.telemetry.schema import BUCKETS
from tests.exporter.conftest import StartedExporter, StartExporter
from tests.exporter.ledger_harness import Harness
from tests.page import check_page
from tests.wire import WATCHDOG_SECONDS, Emitter, Scrape, scrape_until


def spans_of(trainer: Emitter, what: str, number: Any) -> list[Any]:
    """A window of two records, one of which has `number` as its `what`."""
    step, sync = trainer.train_step(1, 1, sample_count=8), trainer.weight_sync(1, 1)
    if what == "distribution count":
        step = trainer.train_step(1, 2, values={"reward": [number, 1.0, 0.0, 1.0, 0.0]}, seq=1)
    elif what == "version":
        step = trainer.train_step(number, 2)
    elif what == "step":
        step = trainer.train_step(1, number)
    elif what == "seq":
        step = trainer.train_step(1, 2, seq=number)
    elif what == "count":
        step = trainer.train_step(1, 2, sample_count=number, token_count=number)
    elif what == "attempt":
        step = trainer.train_step(1, 2, attributes={"asyncrl.run.attempt": number})
    elif what == "time":
        sync.end_time_unix_nano = number
    elif what == "seconds":
        sync = trainer.weight_sync(1, 1, states={"training": number})
    return [step, sync]


@pytest.mark.parametrize(
    ("what", "number"),
    [
        *(
            (what, 1e300)
            for what in ("distribution count", "version", "step", "seq", "count", "attempt", "seconds")
        ),
        *((what, 2**63 - 1) for what in ("version", "step", "seq", "count", "attempt")),
        ("time", 2**64 - 1),
    ],
)
def test_a_number_beyond_measure_harms_no_other_record(
    exporter: StartedExporter, what: str, number: Any
) -> None:
    trainer = Emitter(exporter.otlp)
    assert trainer.post(*spans_of(trainer, what, number)).status == 200
    good = Emitter(exporter.otlp, run="good", source="g0")
    for version in (1, 2):
        assert good.post(*good.window(version, [{"policy_loss": 0.5}])).rejected == 0
    page = scrape_until(exporter.metrics, lambda page: page.value("asyncrl_param_version", run="good") == 2)
    refused = page.by_label("asyncrl_rejected_records_total", "reason", run="r")
    assert refused["bad_value"] >= 1
    check_page(page.text, page.content_type)
    assert requests.get(f"{exporter.metrics}/readyz", timeout=WATCHDOG_SECONDS).status_code == 200
    code, said = exporter.stop()
    assert code == 0, said


def test_times_that_add_up_beyond_measure_stop_no_journal(start_exporter: StartExporter) -> None:
    """Each is in its bounds, and the sum of their nanoseconds is above 64 bits."""
    first = start_exporter("--grace", "1")
    worker, trainer = Emitter(first.otlp, role="rollouter", source="o"), Emitter(first.otlp)
    times = {"generating": 9e7, "draining": 9e7}
    windows = [
        worker.rollouter_window(1, "0", times, capacity_seconds=9e7, busy_capacity_seconds=9e7, seconds=0.0)
        for _ in range(250)
    ]
    assert worker.post(*windows).rejected == 0
    assert trainer.post(*trainer.window(1, [{}], rollouters=["0"])).rejected == 0
    good = Emitter(first.otlp, run="good", source="g0")
    assert good.post(*good.window(1, [{"policy_loss": 0.5}])).rejected == 0
    for life in range(2):
        exporter = start_exporter(data_dir=first.data_dir) if life else first
        page = scrape_until(exporter.metrics, lambda page: page.value("asyncrl_param_version", run="r") == 1)
        assert page.value("asyncrl_policy_loss", run="good") == 0.5
        assert page.value("asyncrl_rollouter_idle_ratio", run="r", rollouter=0) == 0.0
        check_page(page.text, page.content_type)
        code, said = exporter.stop()
        assert (code, "failed" in said) == (0, False), said


def test_counts_stop_at_what_the_journal_holds() -> None:
    huge = Distribution(count=LARGEST_SUM - 1, sum=1.0)
    assert Distribution.merged([huge, huge]).count == LARGEST_SUM
    harness, trainer = Harness(), Emitter("")
    buckets = {"asyncrl.buckets.reward": [*[0] * len(BUCKETS["reward"]), 4]}
    for step in (1, 2):
        span = trainer.train_step(1, step, values={"reward": [4, 80.0, 20.0, 20.0, 0.0]}, attributes=buckets)
        harness.post(trainer, span)
        steps = harness.run.current.open[1].steps
        steps[step] = msgspec.structs.replace(steps[step], sample_count=LARGEST_SUM)
        counts = harness.run.histograms["reward"].counts
        counts[-1] = LARGEST_SUM - 1 if step == 1 else counts[-1]
    assert harness.run.histograms["reward"].counts[-1] == LARGEST_SUM
    harness.post(trainer, trainer.weight_sync(1, 2))
    assert harness.sealed[1].sample_count == LARGEST_SUM
    assert msgspec.msgpack.encode(harness.sealed[1])
    assert msgspec.msgpack.encode(harness.ledger.state)


def test_an_attempt_beyond_measure_in_the_resource_is_refused(exporter: StartedExporter) -> None:
    for attempt in (0, -1, 2**63 - 1):
        trainer = Emitter(exporter.otlp, source=f"t{attempt}", attempt=attempt)
        answer = trainer.post(trainer.weight_sync(0, 0))
        assert (answer.rejected, "asyncrl.run.attempt" in answer.reason) == (1, True)


@pytest.mark.parametrize("run", [".", ".."])
def test_a_run_that_no_url_can_name_is_refused_with_the_reason(exporter: StartedExporter, run: str) -> None:
    trainer = Emitter(exporter.otlp, run=run)
    answer = trainer.post(trainer.weight_sync(0, 0))
    assert (answer.rejected, "which a URL cannot name" in answer.reason) == (1, True)
    trainer = Emitter(exporter.otlp, source="other")
    assert trainer.post(trainer.weight_sync(0, 0, attributes={"rl.run.id": run})).rejected == 1
    assert trainer.post_metrics(trainer.gauge("asyncrl.queue.capacity", 1, {"rl.run.id": run})).rejected == 1
    known = requests.get(f"{exporter.metrics}/api/v1/runs", timeout=WATCHDOG_SECONDS).json()["runs"]
    assert known == []
    _, said = exporter.stop()
    assert said.count("records refused") == 2, "once a minute, run and reason"
    assert f'event="records refused" run={run} reason=bad_value example="bad_value: rl.run.id is' in said
    assert 'event="records refused" run=r reason=bad_value' in said


def test_sums_beyond_measure_leave_a_counter_finite(exporter: StartedExporter) -> None:
    for source in ("q0", "q1"):
        queue = Emitter(exporter.otlp, role="queue", source=source)
        assert queue.post_metrics(queue.sum("asyncrl.samples.fed", 1.5e308, start=1.0)).rejected == 1
        assert queue.post_metrics(queue.sum("asyncrl.samples.fed", 4, start=1.0)).rejected == 0
    page = scrape_until(exporter.metrics, lambda page: page.value("asyncrl_samples_fed_total", run="r") == 8)
    check_page(page.text, page.content_type)


def test_a_state_gauge_is_0_or_1(exporter: StartedExporter) -> None:
    trainer = Emitter(exporter.otlp)
    answer = trainer.post_metrics(trainer.gauge("asyncrl.trainer.state", 7, {"asyncrl.state": "training"}))
    assert (answer.rejected, "bad_value" in answer.reason) == (1, True)


@pytest.mark.parametrize("seq", [True, "3", 1.5, float("nan"), [1]])
def test_a_seq_that_is_no_number_keeps_no_exporter_from_starting_again(
    start_exporter: StartExporter, seq: Any
) -> None:
    first = start_exporter()
    trainer = Emitter(first.otlp)
    assert trainer.post(trainer.span("train_step", 1, {"asyncrl.step": 1}, seq=seq)).rejected == 1
    assert first.stop()[0] == 0
    again = start_exporter(data_dir=first.data_dir)
    page = Scrape(again.metrics)
    assert page.value("asyncrl_rejected_records_total", run="r", reason="bad_value") == 1
