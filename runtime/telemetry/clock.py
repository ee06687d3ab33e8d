"""The one clock of a process: a wall anchor taken at construction, plus monotonic time."""

import time
from collections.abc import Callable


class Clock:
    """Unix time in integer nanoseconds that never steps back.

    The wall clock is read once; from then on only the monotonic clock counts, so that an NTP step, or an
    operator who sets the time, changes no duration. Anchor 1000 s, monotonic 5 s then 30 s: `now_ns` says
    1000 s, then 1025 s.
    """

    def __init__(
        self,
        wall_ns: Callable[[], int] = time.time_ns,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._monotonic_ns = monotonic_ns
        self._offset_ns = wall_ns() - monotonic_ns()

    def now_ns(self) -> int:
        return self._offset_ns + self._monotonic_ns()
