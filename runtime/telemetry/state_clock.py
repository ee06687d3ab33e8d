"""Where the time went: exclusive states of one actor, in integer nanoseconds.

    conditions (nest, overlap)      state (the first that applies)         sums
    enter("paused_staleness")  -->  generating > paused_staleness    -->   window: since the last close
    leave("generating")                                                    totals: since the start

A window's version time is *defined* as the sum of its state times, so ratios need no clamping. Pauses of
[10, 30) and [20, 40) s are counted, not stamped: idle is their union, 30 s, and nothing is left behind for
the next window.
"""

import threading
from array import array
from dataclasses import dataclass

from runtime.telemetry import schema

UNACCOUNTED = "unaccounted"
ACTIVE_STATES = frozenset((*schema.ROLLOUTER_ACTIVE_STATES, *schema.TRAINER_ACTIVE_STATES))


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """One closed window. Only states that took time are in `state_ns`."""

    start_ns: int
    end_ns: int
    state_ns: dict[str, int]
    capacity_ns: int
    """Integral of the capacity over the whole window, response-ns."""
    busy_capacity_ns: int
    """Integral of min(decoding, capacity) over the active states, response-ns."""

    @property
    def version_time_ns(self) -> int:
        return sum(self.state_ns.values())

    @property
    def active_ns(self) -> int:
        return sum(ns for state, ns in self.state_ns.items() if state in ACTIVE_STATES)

    @property
    def idle_ratio(self) -> float | None:
        """(version time - active) / version time; None if the window took no time."""
        version_time_ns = self.version_time_ns
        return (version_time_ns - self.active_ns) / version_time_ns if version_time_ns else None

    @property
    def utilization(self) -> float | None:
        """Busy over available capacity; None, not 0, without capacity."""
        return self.busy_capacity_ns / self.capacity_ns if self.capacity_ns else None

    def state_attributes(self) -> dict[str, float]:
        """`asyncrl.state_seconds.<state>` of a control span."""
        return {schema.STATE_SECONDS_PREFIX + state: ns / 1e9 for state, ns in self.state_ns.items()}

    def rollouter_attributes(self) -> dict[str, float]:
        """`state_attributes`, the version time in seconds, the capacity integrals in response-seconds."""
        return self.state_attributes() | {
            schema.VERSION_TIME_SECONDS: self.version_time_ns / 1e9,
            schema.CAPACITY_SECONDS: self.capacity_ns / 1e9,
            schema.BUSY_CAPACITY_SECONDS: self.busy_capacity_ns / 1e9,
        }


class StateClock:
    """Counts nested and overlapping conditions and charges every nanosecond to exactly one state.

    `states` are in precedence order: the state is the first whose condition holds, else `unaccounted`. Times
    are those of a `Clock`; a stamp older than the last one seen is taken as that one, so that threads which
    stamp before they call cannot make a sum shrink. Thread-safe: the metrics thread reads the totals.
    """

    def __init__(self, states: tuple[str, ...], *, start_ns: int) -> None:
        if UNACCOUNTED not in states:
            raise ValueError(f"states must contain {UNACCOUNTED!r}, got {states}")
        self._lock = threading.Lock()
        self._held = dict.fromkeys(states, 0)
        self._state = UNACCOUNTED
        self._now_ns = start_ns
        self._decoding = 0
        self._capacity = 0
        self._totals_ns = dict.fromkeys(states, 0)
        # The active stretches, merged where they touch: 16 bytes each, about one per step
        # or pause, which is all that grows with a run. The last one may still be growing.
        self._active_start_ns = array("q")
        self._active_end_ns = array("q")
        self._open_window()

    @property
    def state(self) -> str:
        return self._state

    def enter(self, condition: str, now_ns: int) -> None:
        self._hold(condition, 1, now_ns)

    def leave(self, condition: str, now_ns: int) -> None:
        self._hold(condition, -1, now_ns)

    def set_load(self, decoding: int, capacity: int, now_ns: int) -> None:
        """From now on `decoding` of `capacity` responses are being decoded."""
        with self._lock:
            self._advance(now_ns)
            self._decoding, self._capacity = decoding, capacity

    def close_window(self, now_ns: int) -> Window:
        """Close the window; the same timestamp opens the next."""
        with self._lock:
            self._advance(now_ns)
            window = Window(
                start_ns=self._window_start_ns,
                end_ns=self._now_ns,
                state_ns=self._window_ns,
                capacity_ns=self._capacity_ns,
                busy_capacity_ns=self._busy_capacity_ns,
            )
            self._open_window()
            return window

    def discard_window(self, now_ns: int) -> None:
        """Start the window anew: the time since it opened stays in the totals only (start-up)."""
        self.close_window(now_ns)

    def totals_ns(self, now_ns: int) -> dict[str, int]:
        """Nanoseconds per state since the start; never shrink from call to call."""
        with self._lock:
            self._advance(now_ns)
            return self._totals_ns.copy()

    def active_intervals(self) -> list[tuple[int, int]]:
        """The [start, end) stretches spent in active states so far, in order, disjoint and never touching."""
        with self._lock:
            return list(zip(self._active_start_ns, self._active_end_ns, strict=True))

    def _open_window(self) -> None:
        self._window_start_ns = self._now_ns
        self._window_ns: dict[str, int] = {}
        self._capacity_ns = 0
        self._busy_capacity_ns = 0

    def _hold(self, condition: str, change: int, now_ns: int) -> None:
        with self._lock:
            held = self._held.get(condition)
            if held is None:
                raise ValueError(f"condition must be one of {tuple(self._held)}, got {condition!r}")
            if held + change < 0:
                raise ValueError(f"left {condition!r}, which was not entered: pair each leave with an enter")
            self._advance(now_ns)
            self._held[condition] = held + change
            self._state = next((state for state, count in self._held.items() if count), UNACCOUNTED)

    def _advance(self, now_ns: int) -> None:
        elapsed_ns = now_ns - self._now_ns
        if elapsed_ns <= 0:
            return
        self._window_ns[self._state] = self._window_ns.get(self._state, 0) + elapsed_ns
        self._totals_ns[self._state] += elapsed_ns
        self._capacity_ns += self._capacity * elapsed_ns
        if self._state in ACTIVE_STATES:
            self._busy_capacity_ns += min(self._decoding, self._capacity) * elapsed_ns
            if self._active_end_ns and self._active_end_ns[-1] == self._now_ns:
                self._active_end_ns[-1] = now_ns
            else:
                self._active_start_ns.append(self._now_ns)
                self._active_end_ns.append(now_ns)
        self._now_ns = now_ns
