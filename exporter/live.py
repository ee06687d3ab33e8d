"""Live gauges: the newest value of each by its own time, gone when nobody repeats it. Never journalled."""

from typing import Final

import msgspec

SHORTEST_TTL_SECONDS: Final = 60.0


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

    def set(
        self, run: str, key: Key, *, value: float, time_ns: int, source_id: str, monotonic: float
    ) -> None:
        gauges = self.runs.setdefault(run, {})
        old = gauges.get(key)
        if old is not None and old.time_ns > time_ns:
            return
        interval = monotonic - old.arrived if old is not None and old.time_ns < time_ns else 0.0
        gauges[key] = LiveGauge(
            value=value, time_ns=time_ns, source_id=source_id, arrived=monotonic, interval=interval
        )

    def forget_source(self, run: str, source_id: str) -> None:
        gauges = self.runs.get(run, {})
        for key in [key for key, gauge in gauges.items() if gauge.source_id == source_id]:
            del gauges[key]

    def forget_run(self, run: str) -> None:
        self.runs.pop(run, None)

    def alive(self, run: str, monotonic: float) -> dict[Key, float]:
        """The values to publish; what nobody repeated within its time is dropped for good."""
        gauges = self.runs.get(run, {})
        for key in [key for key, gauge in gauges.items() if not gauge.alive(monotonic)]:
            del gauges[key]
        return {key: gauge.value for key, gauge in gauges.items()}
