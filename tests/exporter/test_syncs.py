"""Weight syncs: what one publishes and closes, and which of them go backward."""

import pytest

from tests.exporter.ledger_harness import Harness, losses
from tests.wire import Emitter


def test_the_initial_sync_publishes_and_seals_nothing() -> None:
    harness, t = Harness(), Emitter("")
    harness.post(t, t.weight_sync(0, 0))
    assert harness.sealed == {}
    assert harness.run.current.published == 0


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_steps_of_a_version_that_was_published_without_any_are_surplus(order: tuple[int, int]) -> None:
    harness, t = Harness(), Emitter("")
    said = [*losses(t, 1, [1]), t.weight_sync(1, 0)]
    for place in order:
        harness.post(t, said[place])
    harness.wait(15)
    assert (harness.sealed[1].reasons, harness.sealed[1].published) == (("surplus_steps",), True)


def test_a_lost_sync_blocks_nobody() -> None:
    harness, t = Harness(), Emitter("")
    harness.post(t, *losses(t, 1, [1]))
    t.seq += 1  # the sync of version 1 is lost
    harness.post(t, *losses(t, 2, [2]), t.weight_sync(2, 1))
    harness.wait(15)
    assert harness.sealed[1].reasons == ("lost_records", "missing_sync")
    assert harness.sealed[2].reasons == ("lost_records",), "open when the hole was given up"
    harness.post(t, *losses(t, 3, [3]), t.weight_sync(3, 1))
    assert harness.sealed[3].reasons == ()
    assert harness.count("lost_records_total", "trainer") == 1


def test_a_sync_that_goes_backward_is_refused() -> None:
    harness, t = Harness(), Emitter("")
    harness.post(t, *losses(t, 1, [1]), t.weight_sync(1, 1), *losses(t, 2, [2]), t.weight_sync(2, 1))
    assert "version_backward" in harness.post(t, t.weight_sync(1, 0)).reason
    assert harness.run.current.published == 2


def test_syncs_without_seq_are_ordered_by_their_ends() -> None:
    harness, t = Harness(), Emitter("")
    first, second, again = (t.weight_sync(version, 1, numbered=False) for version in (1, 2, 2))
    harness.post(t, *losses(t, 1, [1]), *losses(t, 2, [2]), second)
    assert harness.post(t, first).rejected == 0, "it was only under way for longer"
    assert [harness.sealed[version].reasons for version in (1, 2)] == [(), ()]
    assert "version_backward" in harness.post(t, again).reason


@pytest.mark.parametrize("role", ["rollouter", "queue"])
def test_only_who_makes_the_weights_publishes_them(role: str) -> None:
    harness, t, other = Harness(), Emitter(""), Emitter("", role=role, source="o0")
    harness.post(t, *losses(t, 1, [1]))
    assert harness.post(other, other.weight_sync(1, 1)).rejected == 1
    assert harness.run.current.published is None
    assert harness.post(t, t.weight_sync(1, 1)).rejected == 0
    assert harness.sealed[1].reasons == ()
