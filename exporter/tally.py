"""The counters of a run that a record moves: what it brings into histograms, and what was wrong with its values."""

import logging
import operator
from bisect import bisect_left
from typing import Final

import msgspec

from exporter import catalog
from exporter.control import Record
from exporter.event_log import say
from exporter.state import Exemplar, Histogram, Run, State
from exporter.statistics import LARGEST_SUM
from exporter.values import Spread, reported_family, user_family
from runtime.telemetry import schema

log = logging.getLogger(__name__)

MAX_USER_METRICS: Final = 300
"""Names of one run that the catalogue does not know; each may become a series per version."""


def refuse(run: Run, reason: str, wall: float, *, by: int = 1) -> None:
    """Count a refused record or value. `reason` is one of `catalog.REJECT_REASONS`."""
    run.count(catalog.REJECTED_RECORDS, reason, by=by)
    run.stamp(catalog.LAST_REJECTED, wall)
    if reason == "version_backward":
        run.stamp(catalog.LAST_BACKWARD, wall)


def refuse_own_values(run: Run, record: Record, wall: float) -> None:
    """Count the values that the sender named itself on a record that is part of no version: nobody would see them."""
    count = len(record.reported) + len(record.user_values)
    if count:
        refuse(run, "bad_value", wall, by=count)


def admit_names(run: Run, record: Record, wall: float) -> Record:
    """The record without the metrics of the sender's own whose family another name has, or that are too many."""
    user = {
        name: value for name, value in record.user_values.items() if _has(run, user_family(name), name, wall)
    }
    reported = {
        name: value for name, value in record.reported.items() if _has(run, reported_family(name), name, wall)
    }
    if len(user) == len(record.user_values) and len(reported) == len(record.reported):
        return record
    return msgspec.structs.replace(record, user_values=user, reported=reported)


def _has(run: Run, family: str, name: str, wall: float) -> bool:
    """Whether the family is of this name, or becomes so."""
    return run.user_names.get(family) == name or _admit(run, name, family, wall)


def _admit(run: Run, name: str, family: str, wall: float) -> bool:
    """Whether a family that is not known to be of this name becomes so."""
    first = run.user_names.get(family)
    if first is not None:
        refuse(run, "collision", wall)
        _say_collision(run, name, first)
        return False
    if len(run.user_names) >= MAX_USER_METRICS:
        refuse(run, "limit", wall)
        return False
    run.user_names[family] = name
    return True


def _say_collision(run: Run, name: str, first: str) -> None:
    """Once for each name, and not for ever."""
    if name not in run.collisions and len(run.collisions) < MAX_USER_METRICS:
        run.collisions.add(name)
        say(log, "name collision", level=logging.WARNING, run=run.name, name=name, taken_by=first)


def count_values(run: Run, record: Record, wall: float) -> None:
    """Count what was wrong with a record's values, and add its distributions to the run's histograms."""
    for name, count in record.nonfinite.items():
        run.count(catalog.NONFINITE_VALUES, name, by=count)
        run.stamp(catalog.LAST_NONFINITE, wall)
    for name, count in record.out_of_range.items():
        run.count(catalog.OUT_OF_RANGE, name, by=count)
        run.stamp(catalog.LAST_OUT_OF_RANGE, wall)
    for reason in record.problems:
        refuse(run, reason, wall)
    if record.kind in schema.ANNEX_SPANS:
        return  # another cohort: it never enters the trained one's histograms
    for name, value in record.values.items():
        if isinstance(value, Spread) and value.buckets is not None:
            histogram = run.histograms.get(name)
            if histogram is None:
                empty = Histogram(bounds=schema.BUCKETS[name], counts=[0] * len(value.buckets))
                histogram = run.histograms[name] = empty
            histogram.counts = list(map(operator.add, histogram.counts, value.buckets))
            if max(histogram.counts) > LARGEST_SUM:
                histogram.counts = [min(count, LARGEST_SUM) for count in histogram.counts]
            histogram.sum.add(value.distribution.sum)
            _point_to_span(histogram, record, name, value.distribution.max, value.buckets)


def drop_foreign_histograms(state: State) -> None:
    """Histograms that another version counted into other buckets begin anew, as any counter may."""
    for run in (*state.runs.values(), *state.finished.values()):
        for name, histogram in list(run.histograms.items()):
            metric = catalog.METRIC_BY_NAME.get(name)
            if metric is not None and histogram.bounds != metric.buckets:
                del run.histograms[name]
                say(log, "histogram begins anew", level=logging.WARNING, run=run.name, metric=name)


def _point_to_span(
    histogram: Histogram, record: Record, name: str, largest: float, counts: tuple[int, ...]
) -> None:
    """Keep the record's span as exemplar of the bucket that its largest value lies in, if it is the newest."""
    bucket = bisect_left(schema.BUCKETS[name], largest)
    known = histogram.exemplars.get(bucket)
    if record.trace and counts[bucket] and (known is None or known.time_ns < record.end_ns):
        histogram.exemplars[bucket] = Exemplar(value=largest, time_ns=record.end_ns, trace=record.trace)
