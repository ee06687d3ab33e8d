"""How often the telemetry complains: a line a minute at most, or an outage would fill the disk."""

import time
from collections.abc import Callable
from typing import Final

SECONDS_BETWEEN_LINES: Final = 60.0


class LogPace:
    """Of one kind of line. For one thread at a time."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._again_at = float("-inf")
        self._left_out = 0

    def take(self) -> int | None:
        """How many lines were left out since the last one; None if this one is to be left out, too."""
        now = self._monotonic()
        if now < self._again_at:
            self._left_out += 1
            return None
        left_out, self._left_out = self._left_out, 0
        self._again_at = now + SECONDS_BETWEEN_LINES
        return left_out
