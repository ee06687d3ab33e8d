"""The lives of a run: which attempt a record belongs to, when the next one begins, and what comes after the end."""

import msgspec

from exporter import catalog
from exporter.control import Record
from exporter.open_windows import drop_unmade
from exporter.state import Attempt, Run, SourceLife, State
from exporter.tally import refuse, refuse_own_values
from runtime.telemetry import schema

RUN_ENDERS = (schema.TRAINER, schema.CONTROLLER)


def find_attempt(state: State, run: Run, life: SourceLife, record: Record, wall: float) -> Attempt:
    """The attempt that a record belongs to; a higher one than the current begins."""
    number = record.attempt or 1
    if life.inferred or (run.inferred and life.role != schema.TRAINER and number < run.attempt):
        number = max(number, life.attempt if life.inferred else run.attempt)
    elif _goes_back(run, life, record, number):
        number = run.attempt + 1
        life.inferred = True
        run.count(catalog.ATTEMPTS_INFERRED)
    if number > life.attempt:
        life.attempt, life.syncs, life.first_step = number, [], None
    if number > run.attempt:
        _begin_attempt(state, run, number, inferred=life.inferred, wall=wall)
    return run.attempts.get(number) or Attempt(number=number)


def _goes_back(run: Run, life: SourceLife, record: Record, number: int) -> bool:
    """A trainer that is no part of the attempt starts at a version that is out already, without a new attempt: it was
    restarted. Steps of its own before its first sync make it a part."""
    published = run.current.published
    return (
        life.role == schema.TRAINER
        and record.kind == schema.WEIGHT_SYNC
        and not life.syncs
        and (life.first_step is None or (record.seq or 0) < life.first_step)
        and number <= run.attempt
        and published is not None
        and record.version <= published
        and any(
            other is not life and other.role == schema.TRAINER and other.syncs
            for other in run.sources.values()
        )
    )


def _begin_attempt(state: State, run: Run, number: int, *, inferred: bool, wall: float) -> None:
    run.attempt = number
    run.inferred = inferred
    for attempt in run.attempts.values():
        refuse_pending(run, attempt, wall)
        close_left_over(state, run, attempt, wall)
    run.attempts[number] = Attempt(number=number)
    run.status = "running"
    run.ended_at = None
    run.stamp(catalog.ATTEMPT_START, wall)
    for life in run.sources.values():
        if inferred and life.role != schema.TRAINER:
            life.attempt = number


def refuse_pending(run: Run, attempt: Attempt, wall: float) -> None:
    """What the waiting annexes of an attempt speak of will never be published."""
    if attempt.pending:
        refuse(run, "bad_value", wall, by=len(attempt.pending))
        attempt.pending = []


def close_left_over(state: State, run: Run, attempt: Attempt, wall: float) -> None:
    """Once it is clear that no window takes them in: what the run end says, and windows of versions nobody made."""
    end = attempt.end
    own_values = end is not None and bool(end.reported or end.user_values)
    if not (own_values or attempt.open) or not _is_over(run, attempt):
        return
    drop_unmade(state, run, attempt, list(attempt.open), "attempt_over")
    if end is not None and own_values:
        if attempt.sealed <= end.version:
            refuse_own_values(run, end, wall)
        attempt.end = msgspec.structs.replace(end, reported={}, user_values={})


def late_reason(run: Run, attempt: Attempt, record: Record, *, fills_hole: bool) -> str | None:
    """Why a record comes after its attempt, one of `catalog.LATE_REASONS`; None if it does not. An annex never does,
    nor the end of a source that ends no run."""
    replaced = attempt.number < run.attempt
    if record.kind in schema.ANNEX_SPANS:
        return None
    if record.kind == schema.RUN_END:
        return "attempt_over" if replaced and record.role in RUN_ENDERS else None
    if not replaced and (fills_hole or not _is_over(run, attempt)):
        return None
    has_window = record.kind != schema.WEIGHT_SYNC or record.steps_in_window > 0
    return "sealed" if has_window and record.version <= attempt.sealed else "attempt_over"


def _is_over(run: Run, attempt: Attempt) -> bool:
    """Nothing is open, and it was replaced, or it has ended and its trainer owes nothing."""
    if attempt.is_open or (attempt.number == run.attempt and attempt.end is None):
        return False
    return attempt.number < run.attempt or not any(
        life.holes(life.received.last)
        for life in run.sources.values()
        if life.role == schema.TRAINER and life.attempt == attempt.number
    )
