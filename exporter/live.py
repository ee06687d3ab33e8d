"""Live gauges: the newest value of each by its own time, gone when nobody repeats it. Never journalled."""

from typing import Final

import msgspec

from exporter.errors import Rejected

SHORTEST_TTL_SECONDS: Final = 60.0
MAX_GAUGES: Final = 4096
"""Of one run."""


class LiveGauge(msgspec.Struct, kw_only=True):
    """The newest value of one live gauge, and how often it comes."""

    value: float
    time_ns: int
    source_id: str
    arrived: float
    """Monotonic seconds."""
    interval: float = 0.0
    """Seconds between its last two arrivals."""

    def alive(self, monotonic: float) -> bool:
        return monotonic - self.arrived <= max(3 * self.interval, SHORTEST_TTL_SECONDS)


Key = tuple[str, tuple[str, ...]]


class LiveGauges:
    """run -> (family name, label values) -> gauge."""

    def __init__(self) -> None:
        self.runs: dict[str, dict[Key, LiveGauge]] = {}
        self._searched: dict[str, float] = {}
        """run -> when it was last searched for dead gauges, monotonic seconds"""

    def set(
        self, run: str, key: Key, *, value: float, time_ns: int, source_id: str, monotonic: float
    ) -> None:
        """Take a value, unless a newer one is alive. Raises Rejected."""
        gauges = self.runs.setdefault(run, {})
        old = gauges.get(key)
        if old is None and len(gauges) >= MAX_GAUGES:
            self._make_room(run, monotonic)
        if old is not None and old.time_ns > time_ns and old.alive(monotonic):
            return
        interval = 0.0  # not known yet, if another source or nobody said this before
        if old is not None and old.source_id == source_id:
            interval = monotonic - old.arrived if old.time_ns < time_ns else old.interval
        gauges[key] = LiveGauge(
            value=value, time_ns=time_ns, source_id=source_id, arrived=monotonic, interval=interval
        )

    def forget_source(self, run: str, source_id: str) -> None:
        gauges = self.runs.get(run, {})
        for key in [key for key, gauge in gauges.items() if gauge.source_id == source_id]:
            del gauges[key]

    def forget_run(self, run: str) -> None:
        self.runs.pop(run, None)
        self._searched.pop(run, None)

    def _make_room(self, run: str, monotonic: float) -> None:
        """Drops the dead ones, once a second at most: a flood of new ones is refused without a search for each."""
        gauges = self.runs[run]
        if monotonic - self._searched.get(run, -1.0) >= 1.0:
            self._searched[run] = monotonic
            for key in [key for key, gauge in gauges.items() if not gauge.alive(monotonic)]:
                del gauges[key]
        if len(gauges) >= MAX_GAUGES:
            raise Rejected("limit", f"{MAX_GAUGES} live gauges of one run are known already")
