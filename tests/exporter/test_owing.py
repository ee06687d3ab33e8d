"""Which rollouters owe a window its record."""

import pytest

from tests.exporter.ledger_harness import Harness, losses
from tests.wire import Emitter


def rollouter(source: str, *, attempt: int | None = None) -> Emitter:
    return Emitter("", role="rollouter", source=source, attempt=attempt)


def heartbeat(harness: Harness, who: Emitter, slot: str) -> None:
    harness.post_metrics(who, who.gauge("asyncrl.rollouter.decoding", 1.0, {"asyncrl.rollouter": slot}))


def test_without_a_list_a_rollouter_silent_for_60_s_owes_nothing_where_versions_have_gaps() -> None:
    harness, t, r = Harness(), Emitter(""), rollouter("r0")
    heartbeat(harness, r, "0")
    for version, wait in ((10, 61.0), (20, 2.0)):
        harness.wait(wait)
        harness.post(t, *losses(t, version, [version]), t.weight_sync(version, 1, None))
        harness.wait(2)
    assert {version: window.reasons for version, window in harness.sealed.items()} == {10: (), 20: ()}


def test_without_a_list_a_rollouter_heard_since_the_sync_before_last_owes_a_record() -> None:
    harness, t, r = Harness(), Emitter(""), rollouter("r0")
    harness.post(t, t.weight_sync(0, 0), *losses(t, 1, [1]))
    heartbeat(harness, r, "0")
    harness.wait(100)
    harness.post(t, t.weight_sync(1, 1, ()), *losses(t, 2, [2]), t.weight_sync(2, 1, None))
    harness.wait(5)
    assert list(harness.sealed) == [1], "it was heard after sync 0, although 105 s ago"
    harness.post(r, r.rollouter_window(2, "0", {"generating": 1.0}))
    assert harness.sealed[2].reasons == ()


def test_a_listed_slot_heard_first_after_its_sync_owes_although_an_older_attempt_had_one_of_its_name() -> (
    None
):
    harness, t, old = Harness(), Emitter("", attempt=1), rollouter("r-old", attempt=1)
    harness.post(t, *losses(t, 1, [1]), t.weight_sync(1, 1, ["0"]))
    harness.post(old, old.rollouter_window(1, "0", {"generating": 1.0}))
    again, new = Emitter("", source="t1", attempt=2), rollouter("r-new", attempt=2)
    harness.post(again, again.weight_sync(1, 0), *losses(again, 2, [2]), again.weight_sync(2, 1, ["0"]))
    harness.wait(1)
    heartbeat(harness, new, "0")
    harness.wait(1)
    assert list(harness.sealed) == [1]
    assert harness.post(new, new.rollouter_window(2, "0", {"generating": 1.0})).rejected == 0
    assert harness.sealed[2].reasons == ()


def test_a_listed_slot_owes_nothing_once_a_newer_instance_has_reported() -> None:
    harness, t, old, new = Harness(), Emitter(""), rollouter("r-old"), rollouter("r-new")
    heartbeat(harness, old, "0")
    harness.wait(1)
    harness.post(t, *losses(t, 1, [1]), t.weight_sync(1, 1, ["0"]))
    harness.wait(1)
    heartbeat(harness, new, "0")
    harness.wait(1)
    assert harness.sealed[1].reasons == ()


@pytest.mark.parametrize("slots", ["0", [""], ["0", ""]], ids=["no list", "no name", "one without a name"])
def test_a_list_that_names_no_slots_is_left_out_and_those_that_were_heard_owe(slots: str | list[str]) -> None:
    harness, t, r = Harness(), Emitter(""), rollouter("r0")
    heartbeat(harness, r, "0")
    sync = t.weight_sync(1, 1, slots)
    assert harness.post(t, *losses(t, 1, [1]), sync).rejected == 0
    assert harness.count("rejected_records_total", "bad_value") == 1
    harness.wait(5)
    assert harness.run.current.published == 1
    assert not harness.sealed
    harness.post(r, r.rollouter_window(1, "0", {"generating": 1.0}))
    assert harness.sealed[1].reasons == ()
