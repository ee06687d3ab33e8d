"""When the exporter was scraped: the retention of the version window and the end of a run go by it."""

import statistics
import time
from itertools import pairwise

_GAPS = 7
"""How many of the last gaps the observed interval is the median of; odd, so that it is a gap that was."""


class ScrapeLog:
    """Counts full answers to GET /metrics. `interval_seconds` is None until there were two."""

    def __init__(self) -> None:
        self.count = 0
        self.last_timestamp: float | None = None
        """Unix seconds at which the page last served was taken from the ledger."""
        self._monotonic: tuple[float, ...] = ()
        """Another tuple each time: scrapes are recorded while the ledger asks for the gaps."""

    def record(self, timestamp: float) -> None:
        """A page was served whose values are those of `timestamp` (unix seconds)."""
        self.count += 1
        self.last_timestamp = timestamp
        self._monotonic = (*self._monotonic[-_GAPS:], time.monotonic())

    @property
    def interval_seconds(self) -> float | None:
        """The median of the last gaps between scrapes, by the monotonic clock."""
        gaps = [later - earlier for earlier, later in pairwise(self._monotonic)]
        return statistics.median(gaps) if gaps else None
