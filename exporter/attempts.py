"""The lives of a run: which attempt a record belongs to, when the next one begins, and what comes after the end."""

import msgspec

from exporter import catalog
from exporter.control import Record
from exporter.state import Attempt, Run, SourceLife
from exporter.tally import refuse, refuse_own_values
from runtime.telemetry import schema

RUN_ENDERS = (schema.TRAINER, schema.CONTROLLER)


def find_attempt(run: Run, life: SourceLife, record: Record, wall: float) -> Attempt:
    """The attempt that a record belongs to; a higher one than the current begins."""
    number = record.attempt or 1
    if life.inferred or (run.inferred and life.role != schema.TRAINER and number < run.attempt):
        number = max(number, life.attempt if life.inferred else run.attempt)
    elif _goes_back(run, life, record, number):
        number = run.attempt + 1
        life.inferred = True
        run.count(catalog.ATTEMPTS_INFERRED)
    if number > life.attempt:
        life.attempt, life.syncs = number, []
    if number > run.attempt:
        _begin_attempt(run, number, inferred=life.inferred, wall=wall)
    return run.attempts.get(number) or Attempt(number=number)


def _goes_back(run: Run, life: SourceLife, record: Record, number: int) -> bool:
    """A trainer nobody knew starts at a version that is out already, without a new attempt: it was restarted."""
    published = run.current.published
    return (
        life.role == schema.TRAINER
        and record.kind == schema.WEIGHT_SYNC
        and not life.syncs
        and number <= run.attempt
        and published is not None
        and record.version <= published
        and any(
            other is not life and other.role == schema.TRAINER and other.syncs
            for other in run.sources.values()
        )
    )


def _begin_attempt(run: Run, number: int, *, inferred: bool, wall: float) -> None:
    for attempt in run.attempts.values():
        refuse_pending(run, attempt, wall)
    run.attempt = number
    run.inferred = inferred
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


def refuse_left_over(run: Run, attempt: Attempt, wall: float) -> None:
    """Once it is clear that no partial window takes in what the run end says."""
    end = attempt.end
    if end is None or not (end.reported or end.user_values) or not _is_over(run, attempt):
        return
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
    """Ended, nothing is open, and its trainer owes nothing."""
    return (
        attempt.end is not None
        and not attempt.is_open
        and not any(
            life.holes(life.received.last)
            for life in run.sources.values()
            if life.role == schema.TRAINER and life.attempt == attempt.number
        )
    )
