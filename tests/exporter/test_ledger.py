"""Windows: membership by count, seals in order, what is late, refused or pending."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from exporter.state import SealedWindow
from tests.exporter.ledger_harness import Harness, losses
from tests.wire import Emitter, Plain


def trainer(source: str = "t0", *, attempt: int | None = None) -> Emitter:
    return Emitter("", source=source, attempt=attempt)


def rollouter(source: str, *, attempt: int | None = None) -> Emitter:
    return Emitter("", role="rollouter", source=source, attempt=attempt)


@pytest.mark.parametrize(
    ("steps_per_version", "means"),
    [(4, [2.5, 6.5, 10.5]), (1, [1.0, 2.0, 3.0, 4.0]), (3, [2.0, 5.0, 8.0, 11.0])],
)
def test_a_window_holds_exactly_the_steps_that_made_its_version(
    steps_per_version: int, means: list[float]
) -> None:
    harness, t = Harness(), trainer()
    for version in range(1, len(means) + 1):
        numbers = range((version - 1) * steps_per_version + 1, version * steps_per_version + 1)
        harness.post(t, *losses(t, version, numbers), t.weight_sync(version, steps_per_version))
    assert [harness.sealed[v].values.scalars["policy_loss"] for v in sorted(harness.sealed)] == means
    assert all(
        window.train_steps == steps_per_version and not window.reasons for window in harness.sealed.values()
    )


def test_steps_per_version_may_vary() -> None:
    harness, t = Harness(), trainer()
    harness.post(t, *losses(t, 1, [1, 2]), t.weight_sync(1, 2))
    harness.post(t, *losses(t, 2, [3, 4, 5, 6, 7]), t.weight_sync(2, 5))
    assert [harness.sealed[v].values.scalars["policy_loss"] for v in (1, 2)] == [1.5, 5.0]


def test_steps_left_at_the_end_are_a_partial_window() -> None:
    harness, t = Harness(), trainer()
    harness.post(t, *losses(t, 1, [1, 2, 3, 4]), t.weight_sync(1, 4))
    harness.post(
        t,
        *losses(t, 2, [5, 6]),
        t.span("run_end", 1, {"asyncrl.status": "completed"}, states={"training": 3.0}),
    )
    partial = harness.sealed[2]
    assert (partial.reasons, partial.published, partial.train_steps) == (("run_end",), False, 2)
    assert partial.values.scalars["policy_loss"] == 5.5
    assert partial.trainer.state_ns == {"training": 3_000_000_000}
    assert harness.run.current.published == 1
    assert harness.run.status == "completed"


def test_a_run_end_waits_for_the_records_below_it() -> None:
    harness, t = Harness(), trainer()
    first, second = losses(t, 1, [1, 2])
    end = t.run_end(0)
    harness.post(t, first, end)
    assert harness.sealed == {}
    harness.post(t, second)
    assert harness.sealed[1].train_steps == 2
    assert harness.sealed[1].reasons == ("run_end",)


def test_a_controller_ends_the_run_of_a_dead_trainer() -> None:
    harness, t, c = Harness(), trainer(), Emitter("", role="controller", source="c0")
    harness.post(t, *losses(t, 1, [1]))
    harness.post(c, c.run_end(0, "failed"))
    assert harness.sealed[1].reasons == ("run_end",)
    assert harness.run.status == "failed"


def test_a_window_waits_for_each_rollouter_it_names() -> None:
    harness, t, a, b = Harness(), trainer(), rollouter("r-a"), rollouter("r-b")
    harness.post(t, *losses(t, 1, [1]), t.weight_sync(1, 1, ["0", "1"]))
    harness.post(a, a.rollouter_window(1, "0", {"generating": 70.0, "paused_staleness": 30.0}))
    assert harness.sealed == {}
    harness.wait(5)
    harness.post(b, b.rollouter_window(1, "1", {"generating": 10.0, "draining": 10.0}))
    window = harness.sealed[1]
    assert window.reasons == ()
    assert {slot: (times.active_ns, times.version_time_ns) for slot, times in window.rollouters.items()} == {
        "0": (70_000_000_000, 100_000_000_000),
        "1": (20_000_000_000, 20_000_000_000),
    }


def test_a_skipped_version_has_no_record_and_is_complete() -> None:
    harness, t, r = Harness(), trainer(), rollouter("r0")
    harness.post(t, *losses(t, 1, [1]), t.weight_sync(1, 1, ["0"]))
    harness.post(t, *losses(t, 2, [2]), t.weight_sync(2, 1, ["0"]))
    harness.post(r, r.rollouter_window(2, "0", {"generating": 2.0}, first_skipped=1))
    assert harness.sealed[1].reasons == ()
    assert harness.sealed[1].rollouters == {}
    assert harness.sealed[2].rollouters["0"].active_ns == 2_000_000_000


def test_two_instances_of_a_slot_in_one_window_are_summed() -> None:
    harness, t, old, new = Harness(), trainer(), rollouter("r-old"), rollouter("r-new")
    harness.post(old, old.rollouter_window(1, "0", {"generating": 2.0}))
    harness.post(new, new.rollouter_window(1, "0", {"generating": 3.0, "starting": 1.0}))
    harness.post(t, *losses(t, 1, [1]), t.weight_sync(1, 1, ["0"]))
    assert harness.sealed[1].rollouters["0"].state_ns == {
        "generating": 5_000_000_000,
        "starting": 1_000_000_000,
    }


def test_without_a_list_every_rollouter_heard_lately_owes_a_record() -> None:
    harness, t, a, b = Harness(), trainer(), rollouter("r-a"), rollouter("r-b")
    for version in (1, 2):
        harness.post(t, *losses(t, version, [version]), t.weight_sync(version, 1, None))
        harness.post(a, a.rollouter_window(version, "0", {"generating": 1.0}))
        harness.post(b, b.rollouter_window(version, "1", {"generating": 1.0}))
        assert version not in harness.sealed, "not before 2 s after the sync"
        harness.wait(2)
    harness.post(t, *losses(t, 3, [3]), t.weight_sync(3, 1, None))
    harness.post(a, a.rollouter_window(3, "0", {"generating": 1.0}))
    harness.wait(5)
    assert sorted(harness.sealed) == [1, 2], "slot 1 still owes version 3"
    harness.post(b, b.rollouter_window(3, "1", {"generating": 1.0}))
    assert harness.sealed[3].reasons == ()


def test_a_rollouter_that_ended_owes_nothing() -> None:
    harness, t, r = Harness(), trainer(), rollouter("r0")
    harness.post(t, *losses(t, 1, [1]), t.weight_sync(1, 1, None))
    harness.post(r, r.rollouter_window(1, "0", {"generating": 1.0}), r.run_end(1, "stopped"))
    harness.wait(2)
    harness.post(t, *losses(t, 2, [2]), t.weight_sync(2, 1, None))
    harness.wait(2)
    assert harness.sealed[2].reasons == ()
    assert harness.run.status == "running"


def test_when_the_grace_runs_out_a_window_is_sealed_with_its_reasons() -> None:
    harness, t = Harness(), trainer()
    harness.post(t, *losses(t, 1, [1, 2, 3]), t.weight_sync(1, 4, ["0"]))
    harness.wait(14.9)
    assert harness.sealed == {}
    harness.wait(0.2)
    assert harness.sealed[1].reasons == ("missing_rollouter", "missing_steps")


def test_surplus_steps_are_said() -> None:
    harness, t = Harness(), trainer()
    harness.post(t, *losses(t, 1, [1, 2, 3]), t.weight_sync(1, 2))
    harness.wait(15)
    assert harness.sealed[1].reasons == ("surplus_steps",)


def test_a_hole_filled_in_time_costs_nothing() -> None:
    harness, t = Harness(), trainer()
    first, second = losses(t, 1, [1, 2])
    harness.post(t, first, t.weight_sync(1, 2))
    harness.wait(10)
    harness.post(t, second)
    assert harness.sealed[1].reasons == ()
    harness.wait(60)
    assert harness.count("lost_records_total", "trainer") == 0


def test_the_seqs_below_the_first_one_of_an_unknown_source_are_a_hole() -> None:
    harness, t = Harness(), trainer()
    t.seq = 10
    harness.post(t, *losses(t, 7, [25]), t.weight_sync(7, 1))
    assert harness.sealed == {}
    harness.wait(15)
    assert harness.sealed[7].reasons == ("lost_records",)
    assert harness.count("lost_records_total", "trainer") == 10


def test_a_hole_that_holds_back_nothing_is_lost_one_grace_after_it_was_seen() -> None:
    harness, t, r = Harness(), trainer(), rollouter("r0")
    harness.post(t, t.weight_sync(0, 0))
    r.seq = 2
    harness.post(r, r.run_end(0, "stopped"))
    harness.wait(14)
    assert harness.count("lost_records_total", "rollouter") == 0
    harness.wait(2)
    assert harness.count("lost_records_total", "rollouter") == 2


def test_what_comes_after_the_seal_is_late_and_changes_nothing() -> None:
    harness, t = Harness(), trainer()
    harness.post(t, *losses(t, 1, [1]), t.weight_sync(1, 1))
    before = harness.sealed[1]
    r = rollouter("r0")
    reply = harness.post(r, r.rollouter_window(1, "0", {"generating": 1.0}))
    assert reply.rejected == 1
    assert "late (sealed)" in reply.reason
    assert harness.post(t, *losses(t, 1, [9])).rejected == 1
    assert harness.count("late_records_total", "sealed") == 2
    assert harness.sealed[1] == before
    assert harness.count("train_steps_total") == 1


def test_a_rollouter_window_of_a_version_nobody_made_is_late_when_a_higher_one_seals() -> None:
    harness, t, r = Harness(), trainer(), rollouter("r0")
    harness.post(r, r.rollouter_window(1, "0", {"generating": 1.0}))
    harness.post(t, *losses(t, 2, [2]), t.weight_sync(2, 1))
    assert harness.sealed[2].reasons == ()
    assert harness.count("late_records_total", "sealed") == 1


def test_a_second_record_of_a_step_is_refused() -> None:
    harness, t, other = Harness(), trainer(), trainer("t1")
    harness.post(t, *losses(t, 1, [1]))
    reply = harness.post(other, *losses(other, 1, [1]))
    assert (reply.rejected, "duplicate_step" in reply.reason) == (1, True)
    assert harness.count("rejected_records_total", "duplicate_step") == 1
    assert harness.count("train_steps_total") == 1


def test_a_repeated_request_is_accepted_and_changes_nothing() -> None:
    harness, t = Harness(), trainer()
    spans = losses(t, 1, [1, 2])
    assert harness.post(t, *spans).rejected == 0
    assert harness.post(t, *spans).rejected == 0
    assert harness.count("train_steps_total") == 2


def test_spans_without_seq_are_deduplicated_by_their_ids() -> None:
    harness, t = Harness(), trainer()
    span = t.train_step(1, 1, numbered=False)
    harness.post(t, span)
    harness.post(t, span)
    assert harness.count("train_steps_total") == 1


def test_annexes_are_no_part_of_a_window_and_never_late() -> None:
    harness, t, q = Harness(), trainer(), Emitter("", role="queue", source="q0")
    harness.post(t, *losses(t, 1, [1]), t.weight_sync(1, 1))
    before = harness.sealed[1]
    cohort = q.span("generated_cohort", 1, {"asyncrl.sample_count": 3}, values={"exact_match_ratio": 0.5})
    assert harness.post(q, cohort).rejected == 0
    assert [(annex.version, annex.kind, annex.sample_count) for annex in harness.annexes] == [
        (1, "generated", 3)
    ]
    assert harness.sealed[1] == before


def test_an_annex_of_a_version_to_come_is_kept_until_that_is_published() -> None:
    harness, t = Harness(), trainer()
    harness.post(t, t.weight_sync(0, 0), t.span("validation", 1, values={"exact_match_ratio": 0.5}))
    assert harness.annexes == []
    harness.post(t, *losses(t, 1, [1]), t.weight_sync(1, 1))
    assert [annex.version for annex in harness.annexes] == [1]


def test_an_annex_of_a_version_that_never_came_is_refused_at_the_end() -> None:
    harness, t = Harness(), trainer()
    harness.post(t, t.weight_sync(0, 0), t.span("validation", 5), t.run_end(0))
    assert harness.annexes == []
    assert harness.count("rejected_records_total", "bad_value") == 1


def test_a_second_annex_of_a_kind_is_a_duplicate() -> None:
    harness, t = Harness(), trainer()
    harness.post(t, t.weight_sync(0, 0))
    harness.post(t, t.span("validation", 0), t.span("validation", 0), t.span("checkpoint", 0))
    assert [annex.kind for annex in harness.annexes] == ["validation", "checkpoint"]


def test_a_new_attempt_may_repeat_versions_and_closes_the_old_one() -> None:
    harness, t = Harness(), trainer()
    harness.post(t, *losses(t, 1, [1]), t.weight_sync(1, 1), *losses(t, 2, [2]))
    again = trainer("t1", attempt=2)
    harness.post(again, again.weight_sync(0, 0), *losses(again, 1, [1]), again.weight_sync(1, 1))
    windows = [item for item in harness.ledger.outbox if isinstance(item, SealedWindow)]
    assert [(window.attempt, window.version, window.reasons) for window in windows] == [
        (1, 1, ()),
        (1, 2, ("missing_sync", "new_attempt")),
        (2, 1, ()),
    ]
    late = harness.post(t, *losses(t, 3, [3]))
    assert "attempt_over" in late.reason
    assert harness.count("attempts_inferred_total") == 0


def test_a_restarted_trainer_that_says_nothing_gets_the_next_attempt() -> None:
    harness, t, r = Harness(), trainer(), rollouter("r0", attempt=1)
    harness.post(t, *losses(t, 1, [1]), t.weight_sync(1, 1), *losses(t, 2, [2]), t.weight_sync(2, 1))
    again = trainer("t1")
    harness.post(again, again.weight_sync(1, 0), *losses(again, 2, [2]), again.weight_sync(2, 1, ["0"]))
    harness.post(r, r.rollouter_window(2, "0", {"generating": 1.0}))
    assert harness.run.attempt == 2
    assert harness.count("attempts_inferred_total") == 1
    assert harness.sealed[2].attempt == 2
    assert harness.sealed[2].reasons == ()


def test_versions_have_ascending_times() -> None:
    harness, t = Harness(), trainer()
    harness.post(t, *losses(t, 1, [1]), t.weight_sync(1, 1, start=100.0, end=101.0))
    harness.post(t, *losses(t, 2, [2]), t.weight_sync(2, 1, start=90.0, end=91.0))
    assert harness.sealed[1].timestamp_ns == 101_000_000_000
    assert harness.sealed[2].timestamp_ns == 101_001_000_000


def _whole_run() -> tuple[Emitter, list[Emitter], list[tuple[Emitter, Span]]]:
    t, a, b = trainer(), rollouter("r-a"), rollouter("r-b")
    said: list[tuple[Emitter, Span]] = [(t, t.weight_sync(0, 0))]
    step = 0
    for version in (1, 2, 3):
        for _ in range(version):
            step += 1
            values: dict[str, Plain] = {
                "policy_loss": 0.1 * step,
                "reward": [4, 0.3 * step, 0.0, 1.0, 0.7],
                "own/thing": step / 3,
            }
            said.append(
                (t, t.train_step(version, step, values=values, sample_count=step, token_count=7 * step))
            )
        said.append((t, t.weight_sync(version, version, ["0", "1"], states={"training": 1.1 * version})))
        said.append((a, a.rollouter_window(version, "0", {"generating": 0.7, "draining": 0.1})))
        said.append((b, b.rollouter_window(version, "1", {"generating": 0.3, "paused_staleness": 0.2})))
    return t, [a, b], said


def _outcome(said: list[tuple[Emitter, Span]]) -> tuple[dict[int, SealedWindow], dict[str, object]]:
    harness = Harness()
    for emitter, span in said:
        harness.post(emitter, span)
    counters: dict[str, object] = {
        family: {labels: total.value for labels, total in sorted(children.items())}
        for family, children in harness.run.counters.items()
    }
    return harness.sealed, counters


_SAID = _whole_run()[2]
_RIGHT = _outcome(_SAID)


@settings(max_examples=60, deadline=None)
@given(st.permutations(_SAID), st.lists(st.sampled_from(_SAID), max_size=8))
def test_the_same_records_in_any_order_and_repeated_give_the_same_windows(
    order: list[tuple[Emitter, Span]], repeated: list[tuple[Emitter, Span]]
) -> None:
    windows, counters = _outcome([*order, *repeated])
    assert sorted(windows) == [1, 2, 3]
    for version, window in windows.items():
        right = _RIGHT[0][version]
        assert (window.values, window.trainer, window.rollouters, window.reasons) == (
            right.values,
            right.trainer,
            right.rollouters,
            (),
        )
        assert window.timestamp_ns == right.timestamp_ns
    assert counters == _RIGHT[1]


def test_last_is_the_value_of_the_highest_step_and_a_sync_follows_its_steps() -> None:
    harness, t = Harness(), trainer()
    steps = [t.train_step(1, step, values={"learning_rate": float(step)}) for step in (7, 8)]
    harness.post(t, steps[1], steps[0], t.weight_sync(1, 2))
    assert harness.sealed[1].values.scalars["learning_rate"] == 8.0
    harness.post(t, t.train_step(2, 9, values={"learning_rate": 9.0}))
    harness.post(t, t.weight_sync(2, 1, values={"learning_rate": 0.5}))
    assert harness.sealed[2].values.scalars["learning_rate"] == 0.5
