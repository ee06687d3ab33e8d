"""When a window may be sealed, and what it lacks. Pure: it reads the ledger's state and decides, it changes nothing.

An existing window is sealed when everything below it in its attempt is, and it is complete; or it is the partial one
at the end of the run; or a newer attempt began; or the grace ran out (architecture, section 6). In this order: whether
the next attempt came in the same request changes nothing of a window that waited for nothing.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from exporter.arrivals import Arrivals
from exporter.state import Attempt, OpenWindow, Run, SourceLife
from runtime.telemetry import schema

ROLLOUTER_SETTLE_SECONDS: Final = 2.0
"""Without a list of rollouters, a window waits this long after its sync before it is found complete."""
ROLLOUTER_SILENCE_SECONDS: Final = 60.0


class Hole(msgspec.Struct, frozen=True, kw_only=True):
    """Sequence numbers of one source that are given up as lost."""

    source_id: str
    first: int
    last: int


class Seal(msgspec.Struct, frozen=True, kw_only=True):
    """A decision, as journalled: seal window `version` (0: none, only give up `holes`)."""

    run: str
    attempt: int
    version: int = 0
    reasons: tuple[str, ...] = ()
    holes: tuple[Hole, ...] = ()
    wall: float


def next_seal(run: Run, arrivals: Arrivals, *, grace: float, wall: float) -> Seal | None:
    """The next thing to do for a run, or None."""
    for number in sorted(run.attempts):
        attempt = run.attempts[number]
        lowest = min((version for version, window in attempt.open.items() if window.exists), default=None)
        if lowest is not None:
            seal = _Judge(run, attempt, arrivals, grace).judge(lowest, wall)
            if seal is not None:
                return seal
    return _idle_holes(run, arrivals, grace=grace, wall=wall)


class _Judge:
    def __init__(self, run: Run, attempt: Attempt, arrivals: Arrivals, grace: float) -> None:
        self.run, self.attempt, self.arrivals, self.grace = run, attempt, arrivals, grace

    def judge(self, version: int, wall: float) -> Seal | None:
        window = self.attempt.open[version]
        holes = self._holes(window)
        lacks = list(self._lacks(version, window, holes))
        if not lacks or (lacks == ["lost_records"] and not holes):
            reasons = lacks  # marked when a hole was given up, at most; nothing is waited for
        elif self._is_partial(version, window) and (not holes or self._grace_is_over(version)):
            reasons = ["run_end", *(["lost_records"] if holes or window.lost_records else [])]
        elif self.attempt.number < self.run.attempt:
            reasons = [*lacks, "new_attempt"]
        elif self._grace_is_over(version):
            reasons = lacks
        else:
            return None
        given_up = tuple(holes) if reasons else ()
        order = sorted(set(reasons))
        return Seal(
            run=self.run.name,
            attempt=self.attempt.number,
            version=version,
            reasons=tuple(order),
            holes=given_up,
            wall=wall,
        )

    def _lacks(self, version: int, window: OpenWindow, holes: list[Hole]) -> Iterator[str]:
        if window.sync is None:  # one that came without steps opened nothing, and says that there are none
            yield "surplus_steps" if version in self.attempt.syncs else "missing_sync"
        elif len(window.steps) < window.sync.steps_in_window:
            yield "missing_steps"
        elif len(window.steps) > window.sync.steps_in_window:
            yield "surplus_steps"
        if holes or window.lost_records:
            yield "lost_records"
        if window.sync is not None and any(self._owed(version, window)):
            yield "missing_rollouter"

    def _is_partial(self, version: int, window: OpenWindow) -> bool:
        """Whether it is the one that the run ended in: one with steps above it was finished, and lacks its sync."""
        end = self.attempt.end
        return (
            end is not None
            and window.sync is None
            and version > end.version
            and not any(other > version for other, above in self.attempt.open.items() if above.exists)
        )

    def _grace_is_over(self, version: int) -> bool:
        """The grace of v starts with the first of: sync v, any later sync, the run end."""
        starts = [
            self.arrivals.sync(self.run.name, self.attempt.number, other)
            for other in self.attempt.syncs
            if other >= version
        ]
        if self.attempt.end is not None:
            starts.append(self.arrivals.end(self.run.name, self.attempt.number))
        return bool(starts) and self.arrivals.now - min(starts) >= self.grace

    def _holes(self, window: OpenWindow) -> list[Hole]:
        """The seqs missing below the end of the window: below its sync, or else below what its trainer sent last."""
        if window.sync is not None:
            below = {window.sync.source_id: window.sync.seq or 0}
        else:
            trainers = {step.source_id for step in window.steps.values()}
            end = self.attempt.end
            if end is not None and end.role == schema.CONTROLLER:
                trainers |= {
                    source_id
                    for source_id, life in self.run.sources.items()
                    if life.role == schema.TRAINER and life.attempt == self.attempt.number
                }
            elif end is not None:
                trainers.add(end.source_id)
            below = {source_id: self.run.sources[source_id].received.last for source_id in trainers}
        return [
            Hole(source_id=source_id, first=first, last=last)
            for source_id, seq in below.items()
            for first, last in self.run.sources[source_id].holes(seq)
        ]

    def _owed(self, version: int, window: OpenWindow) -> Iterator[str]:
        """The slots whose window record is still to come."""
        sync_arrival = self.arrivals.sync(self.run.name, self.attempt.number, version)
        if window.sync is not None and window.sync.rollouters is not None:
            for slot in window.sync.rollouters:
                if not self._settled(slot, version) and not self._replaced(slot, sync_arrival):
                    yield slot
            return
        if self.arrivals.now - sync_arrival < ROLLOUTER_SETTLE_SECONDS:
            yield "any rollouter that is still to be heard"
        heard_since = self.arrivals.now - ROLLOUTER_SILENCE_SECONDS
        if version - 2 in self.attempt.syncs:
            before = self.arrivals.sync(self.run.name, self.attempt.number, version - 2)
            heard_since = min(heard_since, before)
        for slot, (source_id, life) in self._newest_lives().items():
            heard = self.arrivals.heard(self.run.name, source_id)
            if not life.ended and heard >= heard_since and not self._settled(slot, version):
                yield slot

    def _settled(self, slot: str, version: int) -> bool:
        return slot in self.attempt.settled and version in self.attempt.settled[slot]

    def _newest_lives(self) -> dict[str, tuple[str, SourceLife]]:
        return {
            life.slot: (source_id, life)
            for source_id, life in self.run.sources.items()
            if life.slot and life.attempt == self.attempt.number
        }

    def _replaced(self, slot: str, sync_arrival: float) -> bool:
        """Whether the instance that owed is gone: a newer one of its slot was first heard after the sync."""
        lives = [
            source_id
            for source_id, life in self.run.sources.items()
            if life.slot == slot and life.attempt == self.attempt.number
        ]
        return len(lives) > 1 and self.arrivals.first_heard(self.run.name, lives[-1]) > sync_arrival


def _idle_holes(run: Run, arrivals: Arrivals, *, grace: float, wall: float) -> Seal | None:
    """Holes that hold back no window are lost one grace after they were first seen."""
    for source_id, life in run.sources.items():
        attempt = run.attempts.get(life.attempt)
        if life.role == schema.TRAINER and attempt is not None and attempt.is_open:
            continue
        holes = life.holes(life.received.last)
        if not holes:
            continue
        overdue = [
            Hole(source_id=source_id, first=first, last=last)
            for (first, last), since in zip(
                holes, arrivals.holes_seen(run.name, source_id, holes), strict=True
            )
            if arrivals.now - since >= grace
        ]
        if overdue:
            return Seal(run=run.name, attempt=life.attempt, holes=tuple(overdue), wall=wall)
    return None
