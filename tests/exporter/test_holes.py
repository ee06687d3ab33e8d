"""Sequence numbers that are missing: how old a hole is, and when it counts as lost."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exporter.ledger_harness import GRACE_SECONDS, Harness
from tests.wire import Emitter


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
