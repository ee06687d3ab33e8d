"""Times of what happens once: alerts look at them, because a counter that begins at its first event never rises."""

import math

from tests.exporter.ledger_harness import Harness, losses
from tests.wire import Emitter


def trainer(source: str = "t0", *, attempt: int | None = None) -> Emitter:
    return Emitter("", source=source, attempt=attempt)


def time_of(harness: Harness, event: str) -> float | None:
    return harness.run.timestamps.get(f"asyncrl_last_{event}_timestamp_seconds")


def test_an_event_has_the_time_of_its_arrival_and_the_newest_one_counts() -> None:
    harness, t = Harness(), trainer()
    for step, wait in ((1, 5), (2, 7)):
        harness.wait(wait)
        harness.post(t, t.train_step(1, step, values={"policy_loss": math.nan, "clip_ratio": 1.5}))
    for event in ("nonfinite", "out_of_range", "train_step"):
        assert time_of(harness, event) == 1012.0
    assert time_of(harness, "rejected") is None, "the steps were taken"


def test_a_value_in_its_range_is_no_event() -> None:
    harness, t = Harness(), trainer()
    harness.post(t, t.train_step(1, 1, values={"policy_loss": -3.0, "clip_ratio": 1.0}))
    assert time_of(harness, "nonfinite") is None
    assert time_of(harness, "out_of_range") is None


def test_a_version_that_goes_backward_is_an_event_of_its_own() -> None:
    harness, t = Harness(), trainer()
    harness.post(t, *losses(t, 1, [1]), t.weight_sync(1, 1), *losses(t, 2, [2]), t.weight_sync(2, 1))
    harness.post(t, *losses(t, 2, [2]))
    assert (time_of(harness, "rejected"), time_of(harness, "version_backward")) == (None, None)
    harness.wait(3)
    harness.post(t, t.weight_sync(1, 0))
    assert (time_of(harness, "rejected"), time_of(harness, "version_backward")) == (1003.0, 1003.0)


def test_lost_records_and_the_incomplete_version_have_the_time_when_they_were_given_up() -> None:
    harness, t = Harness(), trainer()
    harness.post(t, *losses(t, 1, [1]), t.weight_sync(1, 1))
    t.seq += 1
    harness.post(t, *losses(t, 2, [2]), t.weight_sync(2, 1))
    assert (time_of(harness, "lost_records"), time_of(harness, "incomplete")) == (None, None)
    harness.wait(15)
    assert (time_of(harness, "lost_records"), time_of(harness, "incomplete")) == (1015.0, 1015.0)


def test_what_an_end_leaves_unfinished_is_no_event() -> None:
    """Neither the end of the run nor that of an attempt, whose open versions lack whatever was still to come."""
    harness, t = Harness(), trainer()
    harness.post(t, *losses(t, 1, [1]), t.weight_sync(1, 1), *losses(t, 2, [2]))
    again = trainer("t1", attempt=2)
    harness.post(again, again.weight_sync(1, 0), *losses(again, 2, [3]))
    assert set(harness.sealed[2].reasons) == {"missing_sync", "new_attempt"}
    harness.post(again, again.run_end(1))
    harness.wait(15)
    assert harness.sealed[2].reasons == ("run_end",)
    assert time_of(harness, "incomplete") is None
