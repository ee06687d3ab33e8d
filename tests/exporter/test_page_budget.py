"""The page of many runs keeps to its series budget: who was silent longest shows the core only, then the youngest."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from exporter import catalog
from exporter.negotiation import TEXT
from exporter.page_budget import SILENT_SECONDS, PageBudget
from exporter.page_writer import PageWriter
from exporter.publish import page
from exporter.scrape_log import ScrapeLog
from exporter.self_metrics import SelfMetrics
from exporter.snapshot import RunSnapshot, Snapshot, take_run
from exporter.state import Annex, SealedWindow
from exporter.version_window import VersionWindow
from tests.exporter.conftest import StartExporter
from tests.exporter.ledger_harness import Harness
from tests.page import check_page
from tests.wire import Emitter, Scrape, post_raw, scrape_until

NOW = 1_800_000_000.0
CORE = (
    "asyncrl_run_info",
    "asyncrl_run_attempt",
    "asyncrl_param_version",
    "asyncrl_attempt_start_timestamp_seconds",
    "asyncrl_last_version_timestamp_seconds",
    "asyncrl_last_train_step_timestamp_seconds",
)


def snapshot(name: str, *, user: int = 0, rollouters: int = 0, last_seen: float = NOW) -> RunSnapshot:
    """A run of one version, with annexes and live gauges."""
    harness, slots = Harness(), [str(slot) for slot in range(rollouters)]
    trainer = Emitter("", run=name)
    worker = Emitter("", run=name, role="rollouter", source="o")
    states = {"generating": 1.0, "paused_staleness": 1.0}
    for slot in slots:
        harness.post(
            worker, worker.rollouter_window(1, slot, states, capacity_seconds=2.0, busy_capacity_seconds=1.0)
        )
        decoding = worker.gauge("asyncrl.rollouter.decoding", 1.0, {"asyncrl.rollouter": slot})
        harness.post_metrics(worker, decoding, worker.sum("asyncrl.tokens.generated", 1, start=1.0))
    values = {"policy_loss": 1.0, "reward": [2, 1.0, 0.0, 1.0, 0.5]} | {
        f"mine{number}": 1.0 for number in range(user)
    }
    harness.post(trainer, *trainer.window(1, [values], rollouters=slots))
    harness.post(trainer, trainer.span("validation", 1, {"asyncrl.sample_count": 2}, values={"reward": 0.5}))
    window = VersionWindow(fewest=20, hold_seconds=300.0)
    for item in harness.ledger.outbox:
        if isinstance(item, SealedWindow | Annex):
            window.add(item)
    taken = take_run(harness.ledger, harness.ledger.state.runs[name], window)
    return msgspec.structs.replace(taken, last_seen=last_seen)


def series(*runs: RunSnapshot) -> int:
    """How many the page has of them."""
    shown = Snapshot(runs={run.name: run for run in runs})
    writer = PageWriter(TEXT, SelfMetrics(ScrapeLog()))
    _, complete = writer.write(page.families(shown, NOW), page.versions(shown))
    assert complete
    return writer.series


def share(budget: PageBudget, *runs: RunSnapshot) -> dict[str, RunSnapshot]:
    return budget.share({run.name: run for run in runs}, now=NOW)


SIZES = st.tuples(st.integers(0, 30), st.integers(0, 5), st.sampled_from([0.0, 1.0, 400.0, 900.0, 4000.0]))


@settings(deadline=None, max_examples=30)
@given(sizes=st.lists(SIZES, min_size=1, max_size=8), most=st.integers(100, 3000))
def test_the_page_keeps_to_the_budget_and_cuts_no_run_that_fits(
    sizes: list[tuple[int, int, float]], most: int
) -> None:
    runs = [
        snapshot(f"r{number}", user=user, rollouters=rollouters, last_seen=NOW - silence)
        for number, (user, rollouters, silence) in enumerate(sizes)
    ]
    budget = PageBudget(most, started=0.0)
    shown = share(budget, *runs)
    in_order = sorted(runs, key=lambda run: max(NOW - run.last_seen, SILENT_SECONDS))
    whole = [run for run in in_order if shown[run.name] is run]
    assert whole == in_order[: len(whole)]
    assert whole
    assert budget.cut == {run.name for run in in_order[len(whole) :]}
    assert series(*shown.values()) <= max(
        most, series(in_order[0]) + sum(series(shown[name]) for name in budget.cut)
    )
    if budget.cut:
        one_more = in_order[: len(whole) + 1]
        cut = [shown[run.name] for run in in_order[len(whole) + 1 :]]
        assert series(*one_more, *cut) > 0.8 * most, "the estimate is an upper bound, and no more than that"
    assert share(PageBudget(most, started=0.0), *runs) == shown


def test_a_silent_run_is_cut_for_one_that_speaks_and_comes_back_with_its_voice() -> None:
    first, second = snapshot("first", last_seen=NOW - SILENT_SECONDS - 1), snapshot("second")
    budget = PageBudget(int(1.5 * series(first)), started=0.0)
    assert share(budget, first)["first"] is first
    assert share(budget, first, second)["second"] is second
    assert budget.cut == {"first"}
    dropped = budget.dropped["runs"]
    assert dropped >= series(first) - 20
    first = msgspec.structs.replace(first, last_seen=NOW)
    assert share(budget, first, second)["first"] is first
    assert budget.cut == {"second"}
    assert budget.dropped["runs"] > dropped
    share(budget, first, second)
    assert budget.dropped["runs"] <= 2 * dropped, "a run is counted when it is cut, not at every page"
    assert share(budget, second)["second"] is second
    assert budget.cut == set()


def test_nobody_is_silent_longer_than_somebody_listens() -> None:
    old, young = snapshot("old", last_seen=NOW - 9000), snapshot("young", last_seen=NOW - 8000)
    budget = PageBudget(int(1.5 * series(old)), started=NOW - 1.0)
    share(budget, old, young)
    assert budget.cut == {"young"}, "after a restart all are as they were"


def test_what_is_left_goes_to_the_version_windows_of_the_runs_that_are_whole() -> None:
    first, second = snapshot("first"), snapshot("second")
    assert first.latest is not None
    budget = PageBudget(10_000, started=0.0)
    share(budget, first, second)
    room = 10_000 - series(first, second)
    assert room - 200 <= 2 * (budget.versions("first", first.latest) - 1) * catalog.version_series(0) <= room
    budget = PageBudget(int(1.5 * series(first)), started=0.0)
    share(budget, first, second)
    assert budget.versions("second", first.latest) == 1


def test_a_page_of_many_runs_keeps_to_its_budget_and_every_run_its_core(
    start_exporter: StartExporter,
) -> None:
    exporter = start_exporter("--series-budget", "3000")
    runs = [f"run{number}" for number in range(40)]
    said = ExportTraceServiceRequest()
    for run in runs:
        trainer = Emitter("", run=run)
        for version in range(1, 4):
            values = {"policy_loss": float(version), "reward": [4, 2.0, 0.0, 1.0, 0.5]}
            said.MergeFrom(trainer.request(*trainer.window(version, [values])))
    assert post_raw(exporter.otlp, said.SerializeToString()).rejected == 0

    def settled(page: Scrape) -> bool:
        own = page.value("asyncrl_exporter_series")
        return page.value("asyncrl_param_version", run="run39") == 3 and own is not None and own <= 3000

    for start in range(2):
        if start:
            exporter = start_exporter("--series-budget", "3000", data_dir=exporter.data_dir)
        page = scrape_until(exporter.metrics, settled)
        check_page(page.text, page.content_type)
        whole = page.by_label("asyncrl_policy_loss", "run")
        assert list(whole) == runs[: len(whole)]
        assert len(whole) >= 8
        assert set(whole) == set(page.by_label("asyncrl_train_steps_total", "run"))
        for run in runs:
            assert page.value("asyncrl_run_status", run=run, status="running") == 1
        for name in CORE:
            assert set(page.by_label(name, "run")) == set(runs), name
        assert (page.value("asyncrl_exporter_dropped_series_total", reason="runs") or 0) > 100 * (
            40 - len(whole)
        )
        shown = page.by_label("asyncrl_version_complete", "run")
        assert set(shown) == set(whole)
        code, log = exporter.stop()
        assert code == 0
        assert log.count("runs cut to their core") == 1


@pytest.mark.soak
def test_soak_a_page_of_1000_runs_keeps_to_its_budget(start_exporter: StartExporter) -> None:
    exporter = start_exporter()
    for first in range(0, 1000, 100):
        said = ExportTraceServiceRequest()
        for number in range(first, first + 100):
            trainer = Emitter("", run=f"run{number}")
            said.MergeFrom(trainer.request(*trainer.window(1, [{"policy_loss": 1.0}])))
        assert post_raw(exporter.otlp, said.SerializeToString()).rejected == 0
    page = Scrape(exporter.metrics)
    check_page(page.text, page.content_type)
    whole = len(page.by_label("asyncrl_policy_loss", "run"))
    print(f"{len(page.samples)} series, {len(page.text) / 1e6:.1f} MB, {whole} runs whole")
    assert (page.value("asyncrl_exporter_series") or 0) <= 50_000
    assert len(page.by_label("asyncrl_run_info", "run")) == 1000
