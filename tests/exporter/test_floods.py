"""Floods of names, labels, runs, sources and records: bounded, refused by reason, and other runs go on."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.exporter.conftest import StartedExporter, StartExporter
from tests.exporter.test_hostile import MEBIBYTE, GoodSender
from tests.memory import resident_bytes
from tests.wire import Emitter, Scrape, post_raw, scrape_until

Request = Any
BATCH = 1000


def flood(exporter: StartedExporter, count: int, build: Callable[[int], Request], signal: str) -> int:
    """Posts `count` one-record requests, many at a time; how many were rejected."""
    rejected = 0
    for start in range(0, count, BATCH):
        requests = [build(number) for number in range(start, min(count, start + BATCH))]
        together = type(requests[0])()
        for request in requests:
            together.MergeFrom(request)
        answer = post_raw(exporter.otlp, together.SerializeToString(), signal=signal)
        assert answer.status == 200
        rejected += answer.rejected
    return rejected


def limited(page: Scrape, run: str) -> float:
    return page.value("asyncrl_rejected_records_total", run=run, reason="limit") or 0.0


def new_name(number: int) -> Request:
    trainer = Emitter("", run="flood")
    step = trainer.train_step(1, number + 1, values={f"name_{number}": 1.0}, seq=number + 1)
    return trainer.request(step)


def new_gauge(number: int) -> Request:
    rollouter = Emitter("", run="flood", role="rollouter")
    labels = {"asyncrl.rollouter": f"r{number}", "asyncrl.state": "generating"}
    return rollouter.metrics_request(rollouter.gauge("asyncrl.rollouter.state", 1, labels))


def new_sum(number: int) -> Request:
    rollouter = Emitter("", run="flood", role="rollouter")
    labels = {"asyncrl.rollouter": f"r{number}", "asyncrl.state": "generating"}
    return rollouter.metrics_request(rollouter.sum("asyncrl.rollouter.state_seconds", 1.0, labels, start=1.0))


def new_source(number: int) -> Request:
    rollouter = Emitter("", run="flood", role="rollouter", source=f"s{number}")
    return rollouter.request(rollouter.rollouter_window(1, "0", {"generating": 1.0}))


def new_version(number: int) -> Request:
    trainer = Emitter("", run="flood")
    return trainer.request(trainer.train_step(10 * number + 1, number + 1, seq=number + 1))


@pytest.mark.parametrize(
    ("build", "signal", "count", "admitted"),
    [
        (new_name, "traces", 3000, 300),
        (new_gauge, "metrics", 6000, 4096),
        (new_sum, "metrics", 3000, 1000),
        (new_source, "traces", 6000, 4096),
        (new_version, "traces", 6000, 4096),
    ],
)
def test_a_flood_is_refused_by_reason_and_other_runs_go_on(
    start_exporter: StartExporter, build: Callable[[int], Request], signal: str, count: int, admitted: int
) -> None:
    exporter = start_exporter("--grace", "600")
    good = GoodSender(exporter)
    good.go_on()
    before = resident_bytes(exporter.process.pid)
    flood(exporter, count, build, signal)
    page = good.go_on()
    assert (
        limited(page, "flood") >= count - admitted - 20
    )  # a state gauge brings the series of its other states
    assert limited(page, "good") == 0
    assert resident_bytes(exporter.process.pid) - before < 60 * MEBIBYTE
    code, said = exporter.stop()
    assert code == 0
    assert said.count("\n") < 20


def test_a_source_that_an_open_window_names_is_not_forgotten_for_others(
    start_exporter: StartExporter,
) -> None:
    exporter = start_exporter("--grace", "1")
    good = GoodSender(exporter)
    early = Emitter(exporter.otlp, run="flood", role="rollouter", source="early")  # of whatever role it is
    trainer = Emitter(exporter.otlp, run="flood", source="trainer")
    assert trainer.post(trainer.weight_sync(0, 0)).rejected == 0
    assert early.post(early.train_step(1, 1, values={"policy_loss": 3.0}), early.run_end(0)).rejected == 0
    assert flood(exporter, 4100, new_source, "traces") == 4100 - 4094
    good.go_on()
    late = Emitter(exporter.otlp, run="flood", source="late trainer")
    assert late.post(late.weight_sync(1, 1, [])).rejected == 1, "nothing made room for it"
    assert trainer.post(trainer.weight_sync(1, 1, [])).rejected == 0
    page = scrape_until(exporter.metrics, lambda page: page.value("asyncrl_policy_loss", run="flood") == 3.0)
    assert page.value("asyncrl_version_complete", run="flood", param_version=1, attempt=1) == 1
    good.go_on()


@pytest.mark.soak
def test_a_flood_of_runs_is_refused_and_known_runs_go_on(start_exporter: StartExporter) -> None:
    exporter = start_exporter()
    good = GoodSender(exporter)
    good.go_on()

    def new_run(number: int) -> Request:
        trainer = Emitter("", run=f"run{number}", source=f"s{number}")
        return trainer.request(trainer.train_step(1, 1), trainer.weight_sync(1, 1))

    assert flood(exporter, 1500, new_run, "traces") == 2 * (1500 - 999)
    page = good.go_on()
    assert page.value("asyncrl_exporter_unattributed_records_total", reason="limit") == 2 * (1500 - 999)


@pytest.mark.soak
def test_records_of_windows_that_never_close_are_bounded(start_exporter: StartExporter) -> None:
    exporter = start_exporter("--grace", "600")
    good = GoodSender(exporter)
    good.go_on()
    before = resident_bytes(exporter.process.pid)

    def new_step(number: int) -> Request:
        trainer = Emitter("", run="flood")
        values = {f"name_{metric}": 1.0 for metric in range(250)}
        return trainer.request(trainer.train_step(1, number + 1, values=values, seq=number + 1))

    flood(exporter, 20_000, new_step, "traces")
    page = good.go_on()
    assert limited(page, "flood") > 10_000
    assert limited(page, "good") == 0
    assert resident_bytes(exporter.process.pid) - before < 1000 * MEBIBYTE
