"""Metrics in: sums whose lives add up, live gauges that age, the sample account."""

import math
import signal
from itertools import permutations, product

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from tests.exporter.conftest import StartedExporter, StartExporter
from tests.exporter.ledger_harness import Harness
from tests.page import check_page
from tests.wire import Emitter, Scrape, scrape_until


def queue(source: str = "q0", url: str = "") -> Emitter:
    return Emitter(url, role="queue", source=source)


def account(
    who: Emitter, at: float, *, start: float, fed: int, trained: int, in_flight: int, queued: int
) -> list[Metric]:
    return [
        who.sum("asyncrl.samples.fed", fed, start=start, at=at),
        who.sum("asyncrl.samples", trained, {"asyncrl.outcome": "trained"}, start=start, at=at),
        who.gauge("asyncrl.samples.in_flight", in_flight, at=at),
        who.gauge("asyncrl.samples.queued", queued, at=at),
    ]


def live(harness: Harness, family: str) -> dict[str, float]:
    """The live series of a family that are on the page now, by their last label."""
    gauges = harness.ledger.live.runs.get("r", {})
    return {
        labels[-1]: gauge.value
        for (name, labels), gauge in gauges.items()
        if name == f"asyncrl_{family}" and gauge.alive(harness.now)
    }


def held(harness: Harness) -> float:
    """In flight and queued, as the page has it."""
    life = harness.run.sources[harness.run.queue]
    return (life.in_flight or 0.0) + (life.queued or 0.0)


def balance(harness: Harness) -> float:
    """What was fed minus what became of it: 0 at every instant."""
    ended = sum(total.value for total in harness.run.counters["asyncrl_samples_total"].values())
    return harness.count("samples_fed_total") - ended - held(harness)


def test_lives_of_a_series_add_up_whatever_the_order_of_their_points() -> None:
    harness, who = Harness(), queue()
    for start, at, value in ((1, 2, 5), (9, 10, 3), (1, 3, 7), (1, 2, 5), (9, 10, 3), (1, 2.5, 6)):
        point = who.sum("asyncrl.samples.generated", value, start=float(start), at=float(at))
        assert harness.post_metrics(who, point).rejected == 0
    assert harness.count("samples_generated_total") == 7 + 3


def test_a_fall_within_one_life_is_refused() -> None:
    harness, who = Harness(), queue()
    for at, value, refused in ((2.0, 5, 0), (3.0, 4, 1), (4.0, 6, 0)):
        point = who.sum("asyncrl.samples.generated", value, start=1.0, at=at)
        assert harness.post_metrics(who, point).rejected == refused
    assert harness.count("samples_generated_total") == 6


def test_what_a_replaced_queue_held_was_rolled_back_and_its_late_points_change_nothing() -> None:
    harness, old, new = Harness(), queue("q0"), queue("q1")
    harness.post_metrics(old, *account(old, 2.0, start=1.0, fed=10, trained=4, in_flight=5, queued=1))
    late = account(old, 3.0, start=1.0, fed=11, trained=8, in_flight=2, queued=1)
    harness.post_metrics(new, *account(new, 9.0, start=8.0, fed=6, trained=0, in_flight=6, queued=0))
    assert harness.count("samples_total", "dropped_rollback") == 6
    assert (held(harness), balance(harness)) == (6, 0)
    harness.post_metrics(old, *late)
    assert (held(harness), balance(harness)) == (6, 0)


@pytest.mark.parametrize("order", [("old", "new", "new"), ("new", "old", "new"), ("new", "new", "old")])
def test_the_queue_that_started_later_is_the_newer_one_whichever_is_heard_first(
    exporter: StartedExporter, order: tuple[str, ...]
) -> None:
    run = "-".join(order)
    queues = {name: Emitter(exporter.otlp, run=run, role="queue", source=name) for name in ("old", "new")}
    old = account(queues["old"], 5.0, start=1.0, fed=3, trained=0, in_flight=3, queued=0)
    new = [
        account(queues["new"], at, start=9.0, fed=fed, trained=0, in_flight=fed, queued=0)
        for at, fed in ((10.0, 4), (11.0, 9))
    ]
    for name in order:
        assert queues[name].post_metrics(*(old if name == "old" else new.pop(0))).rejected == 0
    page = scrape_until(exporter.metrics, lambda page: page.value("asyncrl_samples_in_flight", run=run) == 9)
    rolled_back = page.value("asyncrl_samples_total", run=run, outcome="dropped_rollback")
    assert page.value("asyncrl_samples_fed_total", run=run) == 9 + (rolled_back or 0)
    assert rolled_back == (3 if order[0] == "old" else 0)


def test_a_silent_queue_whose_clock_was_ahead_hides_no_successor() -> None:
    harness, dead, new = Harness(), queue("q-dead"), queue("q-new")
    harness.post_metrics(dead, *account(dead, 5001.0, start=5000.0, fed=3, trained=0, in_flight=3, queued=0))
    harness.now += 61
    harness.post_metrics(new, *account(new, 1001.0, start=1000.0, fed=4, trained=0, in_flight=4, queued=0))
    assert (held(harness), balance(harness)) == (4, 0)


def test_what_the_queue_of_a_run_that_is_given_up_held_was_rolled_back() -> None:
    harness, who = Harness(), queue()
    harness.post_metrics(who, *account(who, 2.0, start=1.0, fed=10, trained=4, in_flight=5, queued=1))
    harness.ledger.abandon("r", wall=harness.now)
    assert harness.count("samples_total", "dropped_rollback") == 6
    assert (held(harness), balance(harness)) == (0, 0)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_of_accounts_of_one_time_the_one_with_the_larger_sums_is_newer(order: tuple[int, ...]) -> None:
    harness, who = Harness(), queue()
    accounts = [
        account(who, 0.0, start=0.0, fed=10, trained=0, in_flight=10, queued=0),
        account(who, 0.0, start=0.0, fed=12, trained=0, in_flight=4, queued=8),
        account(who, 0.0, start=0.0, fed=12, trained=5, in_flight=4, queued=3),
    ]
    for number in order:
        assert harness.post_metrics(who, *accounts[number]).rejected == 0
    assert (harness.count("samples_fed_total"), held(harness), balance(harness)) == (12, 7, 0)


def test_a_bad_point_costs_its_whole_account(exporter: StartedExporter) -> None:
    for run, (bad, value) in enumerate(product(range(4), (math.nan, -1.0))):
        who = Emitter(exporter.otlp, run=str(run), role="queue", source=f"q{run}")
        good = account(who, 2.0, start=1.0, fed=10, trained=4, in_flight=5, queued=1)
        spoilt = account(who, 3.0, start=1.0, fed=12, trained=5, in_flight=6, queued=1)
        shape = spoilt[bad].sum if spoilt[bad].HasField("sum") else spoilt[bad].gauge
        shape.data_points[0].as_double = value
        capacity = who.gauge("asyncrl.queue.capacity", 48, at=3.0)
        assert who.post_metrics(*good).rejected == 0
        assert who.post_metrics(*spoilt, capacity).rejected == 4
    page = Scrape(exporter.metrics)
    check_page(page.text, page.content_type)  # every account adds up
    assert set(page.by_label("asyncrl_samples_fed_total", "run").values()) == {10}
    assert set(page.by_label("asyncrl_samples_in_flight", "run").values()) == {5}
    assert set(page.by_label("asyncrl_queue_capacity", "run").values()) == {48}
    refused = page.by_label("asyncrl_rejected_records_total", "run", reason="bad_value")
    assert refused == {str(run): 4 for run in range(8)}


def test_what_the_account_does_not_say_is_absent(exporter: StartedExporter) -> None:
    who = queue(url=exporter.otlp)
    who.post_metrics(who.gauge("asyncrl.samples.queued", 3))
    page = Scrape(exporter.metrics)
    check_page(page.text, page.content_type)
    assert page.value("asyncrl_samples_queued", run="r") == 3
    assert page.value("asyncrl_samples_in_flight", run="r") is None


def test_a_state_is_one_hot_though_its_sender_says_only_the_current_one() -> None:
    harness, who = Harness(), Emitter("")
    for at, state in ((1.0, "training"), (2.0, "weight_sync"), (1.5, "training")):
        point = who.gauge("asyncrl.trainer.state", 1, {"asyncrl.state": state}, at=at)
        assert harness.post_metrics(who, point).rejected == 0
    states = live(harness, "trainer_state")
    assert [state for state, value in states.items() if value] == ["weight_sync"]
    assert len(states) == 9


def test_half_a_state_and_half_a_version_are_refused() -> None:
    harness, who = Harness(), Emitter("", role="rollouter", source="r0")
    slot = {"asyncrl.rollouter": "0"}
    for value, refused in ((0.5, 1), (1.0, 0)):
        state = who.gauge("asyncrl.rollouter.state", value, {**slot, "asyncrl.state": "generating"})
        version = who.gauge("asyncrl.rollouter.param_version", 2 * value + 0.5 * refused, slot)
        assert harness.post_metrics(who, state).rejected == refused
        assert harness.post_metrics(who, version).rejected == refused
        assert live(harness, "rollouter_param_version") == ({} if refused else {"0": 2.0})
    assert live(harness, "rollouter_state")["generating"] == 1.0


def test_a_live_gauge_goes_after_three_intervals_or_a_minute() -> None:
    harness, who = Harness(), queue()
    for seconds in (1.0, 121.0):
        harness.now = 1000.0 + seconds
        harness.post_metrics(who, who.gauge("asyncrl.queue.capacity", 48, at=seconds))
    gauge = harness.ledger.live.runs["r"]["asyncrl_queue_capacity", ()]
    assert gauge.alive(harness.now + 359)
    assert not gauge.alive(harness.now + 361)


def test_a_dead_source_whose_clock_was_ahead_hides_no_successor() -> None:
    harness, dead, new = Harness(), Emitter("", source="r-dead"), Emitter("", source="r-new")
    slot = {"asyncrl.rollouter": "0"}
    harness.post_metrics(dead, dead.gauge("asyncrl.rollouter.decoding", 7, slot, at=5000.0))
    harness.now += 61
    harness.post_metrics(new, new.gauge("asyncrl.rollouter.decoding", 3, slot, at=1000.0))
    assert live(harness, "rollouter_decoding") == {"0": 3}


def test_live_gauges_are_bounded() -> None:
    harness, who = Harness(), Emitter("", role="rollouter", source="r0")
    points = [
        who.gauge("asyncrl.rollouter.decoding", 1, {"asyncrl.rollouter": str(slot)}, at=1.0)
        for slot in range(5000)
    ]
    assert harness.post_metrics(who, *points).rejected == 5000 - 4096
    harness.now += 61
    assert harness.post_metrics(who, points[-1]).rejected == 0


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_a_restarted_exporter_shows_totals_and_no_live_gauge_of_before(
    start_exporter: StartExporter, ending: signal.Signals
) -> None:
    first = start_exporter()
    who = queue(url=first.otlp)
    spoken = account(who, 2.0, start=1.0, fed=10, trained=4, in_flight=5, queued=1)
    who.post_metrics(*spoken, who.gauge("asyncrl.queue.capacity", 48, at=2.0))
    page = scrape_until(first.metrics, lambda page: page.value("asyncrl_queue_capacity", run="r") == 48)
    check_page(page.text, page.content_type)
    first.stop(ending)
    page = Scrape(start_exporter(data_dir=first.data_dir).metrics)
    assert page.value("asyncrl_samples_fed_total", run="r") == 10
    assert page.value("asyncrl_samples_in_flight", run="r") == 5
    assert page.value("asyncrl_queue_capacity", run="r") is None
    check_page(page.text, page.content_type)
