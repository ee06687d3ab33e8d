"""Sequence numbers that are missing: how old a hole is, and when it counts as lost."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exporter.conftest import StartExporter
from tests.exporter.ledger_harness import GRACE_SECONDS, Harness
from tests.wire import Emitter, scrape_until


def test_a_hole_that_is_filled_in_part_is_as_old_as_it_was() -> None:
    harness, r = Harness(), Emitter("", role="rollouter", source="r0")
    spans = [r.rollouter_window(version, "0", {"generating": 1.0}) for version in range(1, 12)]
    harness.post(r, spans[0], spans[9])  # 2..9 are missing
    harness.wait(10.0)
    harness.post(r, spans[1], spans[4], spans[10])  # 3, 4 and 6..9 still are
    harness.wait(4.0)
    assert harness.count("lost_records_total", "rollouter") == 0
    harness.wait(1.0)
    assert harness.count("lost_records_total", "rollouter") == 6


def test_a_source_counts_for_each_run_and_one_count_over_two_is_a_loss_that_the_log_explains(
    start_exporter: StartExporter,
) -> None:
    exporter = start_exporter("--grace", "0.3")
    runs = {run: Emitter(exporter.otlp, run=run, source=run[0]) for run in ("a1", "a2", "b1", "b2")}
    for version in (1, 2):
        for trainer in runs.values():
            assert trainer.post(*trainer.window(version, [{"policy_loss": 1.0}])).rejected == 0
        runs["a1"].seq += 2  # those of the other
        runs["a2"].seq += 2
    page = scrape_until(
        exporter.metrics,
        lambda page: (
            sum(page.by_label("asyncrl_param_version", "run").values()) == 8
            and sum(page.by_label("asyncrl_lost_records_total", "run", role="trainer").values()) == 4
        ),
    )
    lost = page.by_label("asyncrl_lost_records_total", "run", role="trainer")
    assert lost == {"a1": 2, "a2": 2, "b1": 0, "b2": 0}
    _, said = exporter.stop()
    assert 'event="records lost" run=a1 source=a seqs=3..4 also_of=a2' in said


@settings(deadline=None)
@given(st.permutations(range(1, 9)), st.data())
def test_a_missing_seq_is_lost_one_grace_after_it_was_seen_to_be_missing(
    order: list[int], data: st.DataObject
) -> None:
    harness, r = Harness(), Emitter("", role="rollouter", source="r0")
    spans = {seq: r.rollouter_window(seq, "0", {"generating": 1.0}) for seq in range(1, 9)}
    seen: dict[int, float] = {}
    lost, received = set[int](), set[int]()
    for seq in order:
        reply = harness.post(r, spans[seq])
        assert reply.rejected == (seq in lost)
        received.add(seq)
        missing = set(range(1, max(received))) - received
        seen = {each: seen.get(each, harness.now) for each in missing}
        harness.wait(data.draw(st.sampled_from([0.0, 1.0, 7.0, 14.0])))
        lost |= {each for each in missing if harness.now - seen[each] >= GRACE_SECONDS}
        assert harness.count("lost_records_total", "rollouter") == len(lost)
