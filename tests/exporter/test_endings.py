"""The end of a run and of a source, in whatever order its records come; and what comes after it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.exporter.ledger_harness import GRACE_SECONDS, Harness, losses
from tests.wire import Emitter, Plain


def emitter(role: str, source: str, *, attempt: int | None = None) -> Emitter:
    return Emitter("", role=role, source=source, attempt=attempt)


def _ended_run() -> list[tuple[Emitter, Span]]:
    """Two versions, a partial window, a validation, and the ends of trainer and rollouter."""
    t, r = emitter("trainer", "t0"), emitter("rollouter", "r0")
    trainer = [
        t.weight_sync(0, 0),
        *losses(t, 1, [1, 2]),
        t.weight_sync(1, 2, ["0"]),
        *losses(t, 2, [3]),
        t.weight_sync(2, 1, ["0"]),
        t.span("validation", 2, values={"exact_match_ratio": 0.5}),
        *losses(t, 3, [4]),
        t.run_end(2, states={"training": 3.0}),
    ]
    windows = [r.rollouter_window(version, "0", {"generating": 1.0}) for version in (1, 2)]
    return [
        *((t, span) for span in trainer),
        *((r, span) for span in windows),
        (r, r.run_end(2, "stopped")),
    ]


_SAID = _ended_run()


@settings(max_examples=150, deadline=None)
@given(st.permutations(_SAID))
def test_a_run_ends_the_same_in_any_order_of_its_records(order: list[tuple[Emitter, Span]]) -> None:
    harness = Harness()
    replies = [harness.post(who, span) for who, span in order]
    assert [reply.reason for reply in replies if reply.rejected] == []
    found = {
        version: (window.train_steps, window.published, window.reasons)
        for version, window in harness.sealed.items()
    }
    assert found == {1: (2, True, ()), 2: (1, True, ()), 3: (1, False, ("run_end",))}
    assert [annex.version for annex in harness.annexes] == [2]
    assert harness.run.status == "completed"
    assert all(life.ended for life in harness.run.sources.values())
    harness.wait(60)
    assert harness.count("lost_records_total", "trainer") == 0
    assert harness.count("late_records_total", "attempt_over") == 0


def test_after_its_end_a_run_takes_no_new_step() -> None:
    harness, t = Harness(), emitter("trainer", "t0")
    harness.post(t, *losses(t, 1, [1]), t.weight_sync(1, 1), t.run_end(1))
    assert "attempt_over" in harness.post(t, *losses(t, 2, [2])).reason
    assert list(harness.sealed) == [1]


def test_the_end_of_a_rollouter_after_the_run_ends_that_source_and_is_not_late() -> None:
    harness, t, r = Harness(), emitter("trainer", "t0"), emitter("rollouter", "r0")
    harness.post(r, r.rollouter_window(1, "0", {"generating": 1.0}))
    harness.post(t, *losses(t, 1, [1]), t.weight_sync(1, 1, ["0"]), t.run_end(1))
    assert harness.post(r, r.run_end(1, "stopped")).rejected == 0
    assert harness.run.sources["r0"].ended
    assert (harness.run.status, harness.count("late_records_total", "attempt_over")) == ("completed", 0)


def test_what_a_trainer_says_behind_the_end_of_its_controller_is_late() -> None:
    harness, t, c = Harness(), emitter("trainer", "t0"), emitter("controller", "c0")
    harness.post(t, *losses(t, 1, [1]), t.weight_sync(1, 1), *losses(t, 2, [2]))
    harness.post(c, c.run_end(1, "failed"))
    partial = harness.sealed[2]
    assert (partial.train_steps, partial.reasons) == (1, ("run_end",)), (
        "no hole was open, so it waited for nothing"
    )
    assert "late (sealed)" in harness.post(t, *losses(t, 2, [3])).reason
    assert "late (sealed)" in harness.post(t, t.weight_sync(2, 2)).reason
    assert "late (attempt_over)" in harness.post(t, *losses(t, 3, [4])).reason
    assert harness.sealed == {1: harness.sealed[1], 2: partial}
    assert harness.post(t, t.span("validation", 1), t.run_end(1, "stopped")).rejected == 0
    assert harness.run.status == "stopped"


def test_a_hole_of_the_trainer_is_waited_for_behind_the_end_of_its_controller() -> None:
    harness, t, c = Harness(), emitter("trainer", "t0"), emitter("controller", "c0")
    first, missing, last = losses(t, 1, [1, 2, 3])
    harness.post(t, first, last)
    harness.post(c, c.run_end(0, "failed"))
    assert harness.sealed == {}
    assert harness.post(t, missing).rejected == 0
    assert (harness.sealed[1].train_steps, harness.sealed[1].reasons) == (3, ("run_end",))


@pytest.mark.parametrize("first", ["trainer", "controller"])
def test_a_controller_speaks_only_for_a_dead_trainer(first: str) -> None:
    harness, t, c = Harness(), emitter("trainer", "t0"), emitter("controller", "c0")
    harness.post(t, *losses(t, 1, [1]), t.weight_sync(1, 1))
    ends = [(t, t.run_end(1, "stopped")), (c, c.run_end(1, "failed"))]
    for who, end in ends if first == "trainer" else reversed(ends):
        assert harness.post(who, end).rejected == 0
    assert harness.run.status == "stopped"


def test_the_end_of_an_old_trainer_does_not_end_the_new_attempt() -> None:
    harness, t = Harness(), emitter("trainer", "t0", attempt=1)
    again = emitter("trainer", "t1", attempt=2)
    harness.post(t, *losses(t, 1, [1]), t.weight_sync(1, 1))
    harness.post(again, again.weight_sync(1, 0))
    assert "attempt_over" in harness.post(t, t.run_end(1, "failed")).reason
    assert (harness.run.status, harness.run.sources["t0"].ended) == ("running", True)


def test_a_lost_sync_that_the_run_end_speaks_of_was_published() -> None:
    harness, t = Harness(), emitter("trainer", "t0")
    harness.post(t, *losses(t, 1, [1]), t.weight_sync(1, 1), *losses(t, 2, [2]))
    t.seq += 1  # the sync of version 2 is lost
    harness.post(t, *losses(t, 3, [3]), t.run_end(2))
    harness.wait(15)
    assert harness.run.current.published == 2
    assert [
        (version, window.published, window.reasons) for version, window in sorted(harness.sealed.items())
    ] == [(1, True, ()), (2, True, ("lost_records", "missing_sync")), (3, False, ("lost_records", "run_end"))]


def test_where_versions_have_gaps_the_partial_window_is_the_one_that_its_steps_name() -> None:
    harness, t = Harness(), emitter("trainer", "t0")
    for number, version in enumerate((10, 20, 30), 1):
        harness.post(t, *losses(t, version, [number]), t.weight_sync(version, 1))
    harness.post(t, *losses(t, 40, [4]), t.run_end(30, states={"training": 3.0}))
    assert sorted(harness.sealed) == [10, 20, 30, 40]
    partial = harness.sealed[40]
    assert (partial.reasons, partial.published, partial.trainer.active_ns) == (("run_end",), False, 3 * 10**9)


def test_only_the_last_window_is_partial_the_others_lack_their_syncs() -> None:
    harness, t = Harness(), emitter("trainer", "t0")
    harness.post(t, *losses(t, 10, [1]), t.weight_sync(10, 1), *losses(t, 20, [2]), *losses(t, 30, [3]))
    harness.post(t, t.run_end(10, states={"training": 3.0}))
    harness.wait(GRACE_SECONDS)
    found = {
        version: (window.reasons, window.trainer.active_ns) for version, window in harness.sealed.items()
    }
    assert found == {10: ((), 0), 20: (("missing_sync",), 0), 30: (("run_end",), 3 * 10**9)}


@pytest.mark.parametrize("ending", ["run_end", "attempt"])
def test_what_was_said_of_a_version_that_never_came_is_refused_at_the_end(ending: str) -> None:
    harness, t = Harness(), emitter("trainer", "t0")
    harness.post(t, t.weight_sync(0, 0), t.span("validation", 5))
    if ending == "run_end":
        harness.post(t, *losses(t, 1, [1]), t.run_end(0))
    else:
        again = emitter("trainer", "t1", attempt=2)
        harness.post(again, again.weight_sync(0, 0))
    assert harness.count("rejected_records_total", "bad_value") == 1
    reply = harness.post(t, t.span("checkpoint", 5))
    assert "never published" in reply.reason
    assert harness.annexes == []


OWN: dict[str, Plain | None] = {"asyncrl.reported.rollouter_idle_ratio": 0.25, "asyncrl.metric.mine": 1.0}


def test_own_values_that_belong_to_no_version_are_refused_and_counted() -> None:
    harness, t, r = Harness(), emitter("trainer", "t0"), emitter("rollouter", "r0")
    harness.post(t, t.weight_sync(0, 0, attributes=OWN))
    assert harness.count("rejected_records_total", "bad_value") == 2
    harness.post(r, r.span("run_end", 0, OWN | {"asyncrl.status": "stopped"}))
    assert harness.count("rejected_records_total", "bad_value") == 4
    harness.post(t, *losses(t, 1, [1]), t.weight_sync(1, 1, attributes=OWN))
    assert (harness.sealed[1].reported, harness.sealed[1].values.user) == (
        {"": {"rollouter_idle_ratio": 0.25}},
        {"asyncrl_user_mine": 1.0},
    )
    assert harness.count("rejected_records_total", "bad_value") == 4


@pytest.mark.parametrize("steps", [0, 1])
@pytest.mark.parametrize("filled", [True, False])
def test_own_values_on_a_run_end_are_of_the_partial_window_or_refused_once_there_is_none(
    steps: int, filled: bool
) -> None:
    harness, t = Harness(), emitter("trainer", "t0")
    harness.post(t, *losses(t, 1, [1]), t.weight_sync(1, 1))
    missing = [*losses(t, 2, [2][:steps]), t.span("validation", 1)]
    end = t.span("run_end", 1, OWN | {"asyncrl.status": "completed"})
    assert harness.post(t, end).rejected == 0
    assert harness.count("rejected_records_total", "bad_value") == 0, "a step may be on its way"
    if filled:
        harness.post(t, *missing)
    else:
        harness.wait(1.0)
        harness.wait(2 * GRACE_SECONDS)
    taken = steps == 1 and filled
    assert harness.count("rejected_records_total", "bad_value") == (0 if taken else 2)
    if taken:
        assert harness.sealed[2].reported == {"": {"rollouter_idle_ratio": 0.25}}


def test_a_hole_of_an_ended_trainer_is_lost_although_its_successor_works() -> None:
    harness, t = Harness(), emitter("trainer", "t0", attempt=1)
    harness.post(t, *losses(t, 1, [1]), t.weight_sync(1, 1))
    t.seq += 1
    harness.post(t, t.span("validation", 1))
    again = emitter("trainer", "t1", attempt=2)
    harness.post(again, again.weight_sync(1, 0), *losses(again, 2, [2]))
    harness.wait(1)
    harness.wait(15)
    assert harness.count("lost_records_total", "trainer") == 1


def test_a_source_that_speaks_for_two_runs_counts_the_seqs_of_each_by_themselves() -> None:
    harness, t = Harness(), emitter("trainer", "t0")
    other: dict[str, Plain | None] = {"rl.run.id": "other"}
    for version in (1, 2):
        step, sync = t.train_step(version, version), t.weight_sync(version, 1)
        first = 2 * version - 1
        harness.post(t, step, t.train_step(version, version, attributes=other, seq=first))
        harness.post(t, t.weight_sync(version, 1, attributes=other, seq=first + 1), sync)
    harness.wait(GRACE_SECONDS)
    for run in harness.ledger.state.runs.values():
        assert (run.current.sealed, run.counters["asyncrl_versions_sealed_total"]["true",].value) == (2, 2)
        assert run.counters["asyncrl_lost_records_total"]["trainer",].value == 0
    assert sorted(harness.ledger.state.runs) == ["other", "r"]


def test_one_source_may_begin_an_attempt_that_repeats_versions() -> None:
    harness, t = Harness(), emitter("trainer", "t0")
    harness.post(t, *losses(t, 56, [1]), t.weight_sync(56, 1), *losses(t, 57, [2]), t.weight_sync(57, 1))
    second = {"asyncrl.run.attempt": 2}
    reply = harness.post(
        t,
        t.weight_sync(50, 0, attributes=second),
        t.train_step(51, 1, attributes=second),
        t.weight_sync(51, 1, attributes=second),
    )
    assert reply.rejected == 0
    assert (harness.run.attempt, harness.sealed[51].attempt, harness.sealed[51].reasons) == (2, 2, ())
    assert harness.count("attempts_inferred_total") == 0
