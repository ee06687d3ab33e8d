"""When things arrived, on this process's monotonic clock. Never stored: a restarted exporter starts its graces anew."""

from collections.abc import Container, Iterable
from typing import Final

MAX_HEARD: Final = 10_000
"""Sources of one run; what is known of more of them is not all needed."""


class Arrivals:
    """Monotonic seconds. What arrived before this process started counts as having arrived at its start."""

    def __init__(self, now: float) -> None:
        self.started = now
        self.now = now
        # Nested dicts, run -> what it is about -> time, because the writer asks for every source in every turn.
        self._heard: dict[str, dict[str, float]] = {}
        self._first_heard: dict[str, dict[str, float]] = {}
        self._ends: dict[str, dict[int, float]] = {}
        self._syncs: dict[str, dict[int, dict[int, float]]] = {}
        """run -> attempt -> version -> time"""
        self._holes: dict[str, dict[str, list[tuple[int, int, float]]]] = {}
        """run -> source -> first seq, last seq, time; ascending"""

    def hear(self, run: str, source: str) -> None:
        self._heard.setdefault(run, {})[source] = self.now
        self._first_heard.setdefault(run, {}).setdefault(source, self.now)

    def heard(self, run: str, source: str) -> float:
        return self._heard.get(run, {}).get(source, self.started)

    def first_heard(self, run: str, source: str) -> float:
        return self._first_heard.get(run, {}).get(source, self.started)

    def sync_arrived(self, run: str, attempt: int, version: int) -> None:
        self._syncs.setdefault(run, {}).setdefault(attempt, {})[version] = self.now

    def sync(self, run: str, attempt: int, version: int) -> float:
        return self._syncs.get(run, {}).get(attempt, {}).get(version, self.started)

    def end_arrived(self, run: str, attempt: int) -> None:
        self._ends.setdefault(run, {}).setdefault(attempt, self.now)

    def end(self, run: str, attempt: int) -> float:
        return self._ends.get(run, {}).get(attempt, self.started)

    def holes_seen(self, run: str, source: str, holes: Iterable[tuple[int, int]]) -> list[float]:
        """When each was first seen; `holes` are all that the source has, ascending. What is left of one that was
        filled in part is as old as that."""
        of_run = self._holes.setdefault(run, {})
        older = iter(of_run.pop(source, ()))
        known = next(older, None)
        seen = list[tuple[int, int, float]]()
        for first, last in holes:
            while known is not None and known[1] < first:
                known = next(older, None)
            since = self.now if known is None or first < known[0] else known[2]
            seen.append((first, last, since))
        if seen:
            of_run[source] = seen
        return [since for _, _, since in seen]

    def forget_syncs(self, run: str, attempt: int, below: int) -> None:
        times = self._syncs.get(run, {}).get(attempt, {})
        for version in [version for version in times if version < below]:
            del times[version]

    def keep_sources(self, run: str, known: Container[str]) -> None:
        """Forgets sources that the ledger has forgotten, now and then."""
        if len(self._heard.get(run, {})) > MAX_HEARD:
            for times in (self._heard, self._first_heard, self._holes):
                of_run = times.get(run, {})
                for source in [source for source in of_run if source not in known]:
                    del of_run[source]

    def forget_run(self, run: str) -> None:
        for known in (self._heard, self._first_heard, self._ends, self._syncs, self._holes):
            known.pop(run, None)
