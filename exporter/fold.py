"""From the records of a version to its sealed window: every merge is the same in any order of arrival."""

import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping

from exporter import catalog
from exporter.control import Record
from exporter.state import Annex, Attempt, Clocked, OpenWindow, Scope, SealedWindow
from exporter.statistics import Distribution, weighted_mean, whole_sum
from exporter.values import Scalar, Spread, reported_family, user_family
from runtime.telemetry import schema


def fold_window(
    run: str,
    attempt: Attempt,
    version: int,
    window: OpenWindow,
    *,
    reasons: tuple[str, ...],
    timestamp_ns: int,
    now: float,
) -> SealedWindow:
    """The sealed window of `window`. `now` is the exporter's wall clock, seconds."""
    steps = list(window.steps.values())
    partial = window.sync is None and "run_end" in reasons
    end = attempt.end if partial else window.sync
    ends = [] if end is None else [end]
    records = [*steps, *ends, *window.rollouters]
    sample_counts = [step.sample_count for step in steps if step.sample_count is not None]
    return SealedWindow(
        run=run,
        attempt=attempt.number,
        version=version,
        published=version <= (attempt.published or 0),
        reasons=reasons,
        timestamp_ns=timestamp_ns,
        sealed_at=now,
        train_steps=len(steps),
        sample_count=whole_sum(sample_counts) if sample_counts else None,
        values=fold_values(records),
        trainer=_clocked(ends, schema.TRAINER_ACTIVE_STATES),
        rollouters=_fold_rollouters(window.rollouters),
        reported=_fold_reported(records),
    )


def fold_annex(run: str, attempt: Attempt, record: Record, *, now: float) -> Annex:
    """One record about a finished version, as history and the page show it."""
    return Annex(
        run=run,
        attempt=attempt.number,
        version=record.version,
        kind=catalog.ANNEX_KINDS[record.kind],
        timestamp_ns=record.end_ns,
        arrived_at=now,
        sample_count=record.sample_count,
        size_bytes=record.size_bytes,
        values=fold_values([record]),
        reported=_fold_reported([record]),
        untrained=attempt.never_trained(record.version),
    )


def fold_values(records: Iterable[Record]) -> Scope:
    """Merge the values of `records`, each by the statistic that it declares."""
    spreads = defaultdict[str, list[Distribution]](list)
    scalars = defaultdict[str, list[Scalar]](list)
    user = defaultdict[str, list[Scalar]](list)
    for record in sorted(records, key=_position):
        for name, value in record.values.items():
            if isinstance(value, Spread):
                spreads[name].append(value.distribution)
            else:
                scalars[name].append(value)
        for name, scalar in record.user_values.items():
            user[name].append(scalar)
    return Scope(
        scalars=_merge_all(scalars),
        distributions={name: Distribution.merged(parts) for name, parts in sorted(spreads.items())},
        user=_merge_all({user_family(name): terms for name, terms in user.items()}),
    )


def _position(record: Record) -> tuple[int, str, int]:
    """What `last` means: the highest step, and the highest seq within it; a sync follows all its steps."""
    return record.step or sys.maxsize, record.source_id, record.seq or 0


def _merge_all(terms: Mapping[str, list[Scalar]]) -> dict[str, float]:
    """One value for each name; none where no term has weight."""
    merged = [(name, _merge_scalars(terms[name])) for name in sorted(terms)]
    return {name: value for name, value in merged if value is not None}


def _merge_scalars(terms: list[Scalar]) -> float | None:
    """One value of all terms, given in their order; None where none has weight. The first says how they merge."""
    values = [scalar.value for scalar in terms]
    match terms[0].statistic:
        case "sum":
            return math.fsum(values)
        case "min":
            return min(values)
        case "max":
            return max(values)
        case "last":
            return values[-1]
        case _:
            return weighted_mean(values, [scalar.weight for scalar in terms])


def _clocked(records: Iterable[Record], active: tuple[str, ...]) -> Clocked:
    """The state times of several records of one process slot, added."""
    state_ns: dict[str, int] = {}
    capacities = []
    busy = []
    for record in records:
        for state, duration in record.state_ns.items():
            state_ns[state] = whole_sum((state_ns.get(state, 0), duration))
        if record.capacity_ns is not None:
            capacities.append(record.capacity_ns)
            busy.append(record.busy_capacity_ns)
    return Clocked(
        state_ns=dict(sorted(state_ns.items())),
        active_ns=sum(state_ns.get(state, 0) for state in active),
        capacity_ns=whole_sum(capacities) if capacities else None,
        busy_capacity_ns=whole_sum(busy),
    )


def _fold_rollouters(records: list[Record]) -> dict[str, Clocked]:
    by_slot: dict[str, list[Record]] = {}
    for record in records:
        by_slot.setdefault(record.rollouter, []).append(record)
    return {slot: _clocked(by_slot[slot], schema.ROLLOUTER_ACTIVE_STATES) for slot in sorted(by_slot)}


def _fold_reported(records: list[Record]) -> dict[str, dict[str, float]]:
    """What senders computed themselves, as they said it: the newest by end time wins, nothing is merged."""
    reported: dict[str, dict[str, float]] = {}
    for record in sorted(records, key=lambda record: (record.end_ns, record.source_id, record.seq or 0)):
        for name, value in record.reported.items():
            families = reported.setdefault(record.service_name, {})
            families[reported_family(name).removeprefix(catalog.REPORTED_PREFIX)] = value
    return {source: dict(sorted(values.items())) for source, values in sorted(reported.items())}
