"""Worked values of the definitions, in seconds; then what must hold for any history."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.telemetry.clock import Clock
from runtime.telemetry.schema import ROLLOUTER_STATES, TRAINER_STATES
from runtime.telemetry.state_clock import StateClock, Window

SECOND = 1_000_000_000


def rollouter(*, start: float = 0, capacity: int = 4) -> StateClock:
    """A rollouter that generates at full load from `start` on."""
    clock = StateClock(ROLLOUTER_STATES, start_ns=int(start * SECOND))
    clock.enter("generating", int(start * SECOND))
    clock.set_load(capacity, capacity, int(start * SECOND))
    return clock


def pause(clock: StateClock, start: float, end: float, state: str = "paused_staleness") -> None:
    """One pause as the rollouter makes it: it stops decoding, waits, and goes on."""
    clock.leave("generating", int(start * SECOND))
    clock.enter(state, int(start * SECOND))
    clock.leave(state, int(end * SECOND))
    clock.enter("generating", int(end * SECOND))


def window_with_pauses(*pauses: tuple[float, float]) -> Window:
    clock = rollouter()
    for start, end in pauses:
        pause(clock, start, end)
    return clock.close_window(100 * SECOND)


@pytest.mark.parametrize(
    ("pauses", "idle_ratio"),
    [
        ([(10, 30), (60, 70)], 0.30),
        ([(10, 60), (90, 100)], 0.60),
        ([(5, 15)], 0.10),
        ([], 0.0),
    ],
)
def test_idle_is_the_sum_of_all_pauses(pauses: list[tuple[float, float]], idle_ratio: float) -> None:
    window = window_with_pauses(*pauses)
    assert window.idle_ratio == idle_ratio
    assert window.version_time_ns == 100 * SECOND
    assert window.utilization == pytest.approx(1 - idle_ratio, abs=1e-15)


def test_nothing_served_is_idle_one() -> None:
    clock = StateClock(ROLLOUTER_STATES, start_ns=0)
    clock.enter("waiting_prompts", 0)
    clock.set_load(0, 4, 0)
    window = clock.close_window(100 * SECOND)
    assert (window.idle_ratio, window.utilization) == (1.0, 0.0)


def test_generation_suspended_by_a_sync_is_idle() -> None:
    clock = rollouter()
    clock.enter("weight_sync", 40 * SECOND)  # outranks generating, which stays entered
    clock.leave("weight_sync", 65 * SECOND)
    window = clock.close_window(100 * SECOND)
    assert window.idle_ratio == 0.25
    assert window.state_ns == {"generating": 75 * SECOND, "weight_sync": 25 * SECOND}


def test_a_wall_clock_stepping_back_changes_no_ratio() -> None:
    wall_ns, monotonic_ns = [1_700_000_000 * SECOND], [0]
    now = Clock(wall_ns=lambda: wall_ns[0], monotonic_ns=lambda: monotonic_ns[0])
    clock = StateClock(ROLLOUTER_STATES, start_ns=now.now_ns())
    clock.enter("generating", now.now_ns())
    monotonic_ns[0] = 10 * SECOND
    clock.leave("generating", now.now_ns())
    clock.enter("paused_staleness", now.now_ns())
    wall_ns[0] -= 50 * SECOND
    monotonic_ns[0] = 30 * SECOND
    clock.leave("paused_staleness", now.now_ns())
    clock.enter("generating", now.now_ns())
    monotonic_ns[0] = 100 * SECOND
    window = clock.close_window(now.now_ns())
    assert (window.idle_ratio, window.version_time_ns) == (0.20, 100 * SECOND)


def test_one_straggler_of_twelve_is_busy_and_hardly_utilised() -> None:
    clock = StateClock(ROLLOUTER_STATES, start_ns=0)
    clock.enter("draining", 0)
    clock.set_load(1, 12, 0)
    window = clock.close_window(100 * SECOND)
    assert window.idle_ratio == 0.0
    assert window.utilization == pytest.approx(1 / 12)


def test_utilization_counts_decoding_in_active_states_alone() -> None:
    clock = StateClock(ROLLOUTER_STATES, start_ns=0)
    clock.set_load(8, 8, 0)
    clock.enter("validating", 0)  # decodes, but not for training
    clock.leave("validating", 50 * SECOND)
    clock.enter("generating", 50 * SECOND)
    clock.set_load(12, 8, 75 * SECOND)  # more decoding than slots counts as full
    window = clock.close_window(100 * SECOND)
    assert window.busy_capacity_ns == 8 * 50 * SECOND
    assert window.utilization == 0.5


def test_utilization_is_undefined_without_capacity() -> None:
    clock = StateClock(ROLLOUTER_STATES, start_ns=0)
    clock.enter("generating", 0)
    assert clock.close_window(SECOND).utilization is None
    assert clock.close_window(SECOND).idle_ratio is None


def test_trainer_window_of_the_definition() -> None:
    clock = StateClock(TRAINER_STATES, start_ns=0)
    now = 0
    steps = [("waiting_samples", 5), ("training", 20)] * 4
    for state, seconds in [*steps, ("weight_sync", 30), ("validating", 60), ("checkpointing", 20)]:
        clock.enter(state, now)
        now += seconds * SECOND
        clock.leave(state, now)
    window = clock.close_window(now)
    assert window.version_time_ns == 210 * SECOND
    assert window.idle_ratio == 130 / 210
    assert window.state_ns["waiting_samples"] / window.version_time_ns == 20 / 210


def test_c08_a_pause_of_an_earlier_window_leaves_nothing_behind() -> None:
    clock = rollouter()
    pause(clock, 40, 70)
    assert clock.close_window(100 * SECOND).idle_ratio == 0.30
    window = clock.close_window(160 * SECOND)
    assert (window.active_ns, window.version_time_ns, window.idle_ratio) == (60 * SECOND, 60 * SECOND, 0.0)


def test_c08_a_pause_over_a_boundary_is_split_by_it() -> None:
    clock = rollouter()
    clock.leave("generating", 90 * SECOND)
    clock.enter("paused_staleness", 90 * SECOND)
    assert clock.close_window(100 * SECOND).idle_ratio == 0.10
    clock.leave("paused_staleness", 110 * SECOND)
    clock.enter("generating", 110 * SECOND)
    assert clock.close_window(200 * SECOND).idle_ratio == 0.10


def test_c09_every_pause_of_a_window_counts() -> None:
    window = window_with_pauses((20, 35), (60, 70), (95, 100))
    assert (window.idle_ratio, window.active_ns) == (0.30, 70 * SECOND)


@pytest.mark.parametrize("second", ["paused_staleness", "paused_queue_full"])
def test_c09_overlapping_pauses_give_their_union(second: str) -> None:
    clock = rollouter()
    clock.leave("generating", 20 * SECOND)
    clock.enter("paused_staleness", 20 * SECOND)
    clock.enter(second, 30 * SECOND)
    clock.leave("paused_staleness", 35 * SECOND)
    clock.leave(second, 40 * SECOND)
    clock.enter("generating", 40 * SECOND)
    assert clock.close_window(100 * SECOND).idle_ratio == 0.20


def test_c09_nested_pauses_give_the_outer_one() -> None:
    clock = rollouter()
    clock.leave("generating", 20 * SECOND)
    for now in (20, 25):
        clock.enter("paused_staleness", now * SECOND)
    for now in (30, 50):
        clock.leave("paused_staleness", now * SECOND)
    clock.enter("generating", 50 * SECOND)
    assert clock.close_window(100 * SECOND).idle_ratio == 0.30


def test_start_up_belongs_to_no_window_but_to_the_totals() -> None:
    clock = StateClock(ROLLOUTER_STATES, start_ns=0)
    clock.enter("starting", 0)
    clock.leave("starting", 30 * SECOND)
    clock.enter("generating", 30 * SECOND)
    clock.discard_window(30 * SECOND)
    window = clock.close_window(40 * SECOND)
    assert (window.start_ns, window.state_ns) == (30 * SECOND, {"generating": 10 * SECOND})
    assert clock.totals_ns(40 * SECOND)["starting"] == 30 * SECOND


def test_window_attributes_are_those_of_the_wire() -> None:
    assert window_with_pauses((10, 30)).rollouter_attributes() == {
        "asyncrl.state_seconds.generating": 80.0,
        "asyncrl.state_seconds.paused_staleness": 20.0,
        "asyncrl.version_time_seconds": 100.0,
        "asyncrl.capacity_seconds": 400.0,
        "asyncrl.busy_capacity_seconds": 320.0,
    }


def test_active_intervals_merge_what_touches() -> None:
    clock = rollouter()
    for second in range(1, 1000):  # polls and window boundaries cut nothing
        clock.totals_ns(second * SECOND)
        clock.close_window(second * SECOND)
    clock.leave("generating", 1000 * SECOND)
    clock.enter("draining", 1000 * SECOND)
    clock.leave("draining", 1010 * SECOND)
    clock.enter("generating", 1020 * SECOND)
    clock.totals_ns(1030 * SECOND)
    assert clock.active_intervals() == [(0, 1010 * SECOND), (1020 * SECOND, 1030 * SECOND)]


def test_an_unknown_condition_and_an_unpaired_leave_are_refused() -> None:
    clock = StateClock(TRAINER_STATES, start_ns=0)
    with pytest.raises(ValueError, match="condition must be one of"):
        clock.enter("draining", 0)
    with pytest.raises(ValueError, match="was not entered"):
        clock.leave("training", 0)


MOVES = st.lists(
    st.tuples(
        st.sampled_from(["enter", "leave", "load", "close", "poll"]),
        st.sampled_from(ROLLOUTER_STATES),
        st.integers(min_value=-5, max_value=10**12),  # ns since the last move; sometimes a stale stamp
    ),
    max_size=60,
)


@given(moves=MOVES, load=st.integers(min_value=0, max_value=20))
def test_any_history_adds_up_to_the_nanosecond(moves: list[tuple[str, str, int]], load: int) -> None:
    clock = StateClock(ROLLOUTER_STATES, start_ns=0)
    clock.set_load(load, 8, 0)
    held = dict.fromkeys(ROLLOUTER_STATES, 0)
    windows = []
    now = latest = 0
    for move, state, step_ns in moves:
        now = max(latest + step_ns, 0)
        latest = max(latest, now)
        if move == "enter" or (move == "leave" and held[state]):
            held[state] += 1 if move == "enter" else -1
            (clock.enter if move == "enter" else clock.leave)(state, now)
        elif move == "load":
            clock.set_load(load, 8, now)
        elif move == "close":
            windows.append(clock.close_window(now))
        else:
            clock.totals_ns(now)
    windows.append(clock.close_window(latest))

    assert sum(window.version_time_ns for window in windows) == latest
    for earlier, later in pairwise(windows):
        assert earlier.end_ns == later.start_ns
    for window in windows:
        assert window.version_time_ns == window.end_ns - window.start_ns
        assert window.capacity_ns == 8 * window.version_time_ns
        if window.version_time_ns:
            assert window.utilization is not None
            assert window.idle_ratio is not None
            assert 0 <= window.idle_ratio <= 1
            assert window.busy_capacity_ns <= 8 * window.active_ns  # utilization <= 1 - idle_ratio, exactly
    summed = {state: sum(window.state_ns.get(state, 0) for window in windows) for state in ROLLOUTER_STATES}
    assert clock.totals_ns(latest) == summed
    assert sum(end - start for start, end in clock.active_intervals()) == sum(w.active_ns for w in windows)
