"""When things arrived, on this process's monotonic clock. Never stored: a restarted exporter starts its graces anew."""

Key = tuple[str | int, ...]


class Arrivals:
    """Monotonic seconds. What arrived before this process started counts as having arrived at its start."""

    def __init__(self, now: float) -> None:
        self.started = now
        self.now = now
        self._times: dict[Key, float] = {}
        """(run, what, which, ...) -> time"""

    def hear(self, run: str, source: str) -> None:
        self._times[run, "heard", source] = self.now
        self._times.setdefault((run, "first heard", source), self.now)

    def heard(self, run: str, source: str) -> float:
        return self._times.get((run, "heard", source), self.started)

    def first_heard(self, run: str, source: str) -> float:
        return self._times.get((run, "first heard", source), self.started)

    def sync_arrived(self, run: str, attempt: int, version: int) -> None:
        self._times[run, "sync", attempt, version] = self.now

    def sync(self, run: str, attempt: int, version: int) -> float:
        return self._times.get((run, "sync", attempt, version), self.started)

    def end_arrived(self, run: str, attempt: int) -> None:
        self._times.setdefault((run, "end", attempt), self.now)

    def end(self, run: str, attempt: int) -> float:
        return self._times.get((run, "end", attempt), self.started)

    def hole_seen(self, run: str, source: str, first: int) -> float:
        """When the hole that begins at `first` was first seen: now, if it is new."""
        return self._times.setdefault((run, "hole", source, first), self.now)

    def forget_syncs(self, run: str, attempt: int, below: int) -> None:
        prefix = (run, "sync", attempt)
        self._forget([key for key in self._times if key[:3] == prefix and int(key[3]) < below])

    def forget_holes(self, run: str, source: str, keep: set[int]) -> None:
        prefix = (run, "hole", source)
        self._forget([key for key in self._times if key[:3] == prefix and key[3] not in keep])

    def forget_run(self, run: str) -> None:
        self._forget([key for key in self._times if key[0] == run])

    def _forget(self, keys: list[Key]) -> None:
        for key in keys:
            del self._times[key]
