"""Metrics in: live gauges, and cumulative sums whose lives add up. The sample account travels in one request."""

from bisect import insort
from collections.abc import Iterator
from typing import Final

from exporter import catalog
from exporter.attributes import LARGEST, label
from exporter.errors import Rejected
from exporter.live import Key, LiveGauges
from exporter.records import Point
from exporter.state import Labels, Run, Series, SourceLife
from runtime.telemetry import schema

_ATTRIBUTE_OF_LABEL: Final = {
    "rollouter": schema.ROLLOUTER,
    "state": schema.STATE,
    "outcome": schema.OUTCOME,
    "kind": schema.DROPPED_KIND,
}
_CLOSED_VALUES: Final[dict[str, tuple[str, ...]]] = {
    catalog.SAMPLES.name: schema.OUTCOMES,
    catalog.ROLLOUTER_STATE.name: schema.ROLLOUTER_STATES,
    catalog.ROLLOUTER_STATE_SECONDS.name: schema.ROLLOUTER_STATES,
    catalog.TRAINER_STATE.name: schema.TRAINER_STATES,
    catalog.TRAINER_STATE_SECONDS.name: schema.TRAINER_STATES,
}
"""Families whose last label has a closed list of values."""
_ONE_HOT: Final = (catalog.ROLLOUTER_STATE, catalog.TRAINER_STATE)
MAX_CHILDREN: Final = 1000
MAX_STARTS: Final = 4
"""Lives of one series of one source that are still told apart; a start is the beginning of a life."""
_ACCOUNTED: Final = (catalog.SAMPLES_FED, catalog.SAMPLES)
_ACCOUNT: Final = (schema.GAUGE_IN_FLIGHT, schema.GAUGE_QUEUED)


def apply_point(run: Run, life: SourceLife, live: LiveGauges, point: Point, monotonic: float) -> None:
    """Take one data point. Raises Rejected. An instrument that the exporter does not know is left alone."""
    sums, gauges = catalog.SUM_FAMILIES.get(point.name), catalog.LIVE_FAMILIES.get(point.name)
    family = sums or gauges
    if family is None:
        return
    _check(family, "sum" if sums else "gauge", point)
    labels = _labels(family, point)
    if "rollouter" in family.labels and life.role == schema.ROLLOUTER_ROLE:
        life.slot = labels[family.labels.index("rollouter") - 1]
    if sums:
        if family in _ACCOUNTED and run.queue and _is_older(run, point.source.source_id, run.queue):
            return  # its account was closed when the newer queue took over
        _add(run, life, family, labels, point)
    elif point.name in _ACCOUNT:
        _account(run, life, point)
    elif not life.ended and run.ended_at is None:
        for key, value in _gauges(family, labels, point.value):
            live.set(
                run.name,
                key,
                value=value,
                time_ns=point.time_ns,
                source_id=point.source.source_id,
                monotonic=monotonic,
            )


def _gauges(family: catalog.Family, labels: Labels, value: float) -> Iterator[tuple[Key, float]]:
    """The series that a live gauge sets: a state of 1 also sets the other states of its process to 0."""
    if value == 1.0 and family in _ONE_HOT:
        for state in _CLOSED_VALUES[family.name]:
            yield (family.name, (*labels[:-1], state)), 0.0
    yield (family.name, labels), value


def _check(family: catalog.Family, kind: str, point: Point) -> None:
    if point.kind == "delta":
        raise Rejected("delta", f"{point.name} has delta temporality; send cumulative sums")
    if point.kind != kind:
        raise Rejected("bad_value", f"{point.name} came as {point.kind}")
    high = LARGEST if family.high is None else family.high
    if not 0 <= point.value <= high:
        raise Rejected("bad_value", f"{point.name} is {point.value}, expected 0..{high:g}")


def _labels(family: catalog.Family, point: Point) -> Labels:
    if point.name == schema.SUM_TOKENS_GENERATED:
        return ("generated",)
    labels = []
    for name in family.labels[1:]:
        attribute = _ATTRIBUTE_OF_LABEL[name]
        value = label(str(point.attributes.get(attribute, "")))
        if not value:
            raise Rejected("missing_attribute", f"{point.name} has no {attribute}")
        labels.append(value)
    closed = _CLOSED_VALUES.get(family.name)
    if closed is not None and labels[-1] not in closed:
        reason = "unknown_state" if "state" in family.labels else "bad_value"
        raise Rejected(reason, f"{labels[-1]!r} of {point.name}: expected one of {', '.join(closed)}")
    return tuple(labels)


def _add(run: Run, life: SourceLife, family: catalog.Family, labels: Labels, point: Point) -> None:
    """Add the increment of a cumulative sum. Another start is another life of the series, and begins at 0."""
    children = run.counters.setdefault(family.name, {})
    if labels not in children and len(children) >= MAX_CHILDREN:
        raise Rejected("limit", f"{family.name} has {MAX_CHILDREN} series already")
    lives = life.sums.setdefault(family.name, {}).setdefault(labels, [])
    last = next((series for series in lives if series.start_ns == point.start_ns), None)
    if last is None:
        if len(lives) >= MAX_STARTS and point.start_ns < lives[0].start_ns:
            return  # of a life that is long over
        last = Series(start_ns=point.start_ns)
        insort(lives, last, key=lambda series: series.start_ns)
        del lives[:-MAX_STARTS]
    elif point.time_ns <= last.time_ns:
        return  # older than what is known, or the same again
    if point.value < last.value:
        raise Rejected("bad_value", f"{point.name} fell from {last.value} to {point.value} within one life")
    run.count(family, *labels, by=point.value - last.value)
    last.time_ns, last.value = point.time_ns, point.value


def _account(run: Run, life: SourceLife, point: Point) -> None:
    """What the queue holds. A new queue of the run takes over: what the old one still held was rolled back."""
    source_id = point.source.source_id
    if run.queue != source_id:
        if life.ended or (run.queue and _is_older(run, source_id, run.queue)):
            return
        roll_back(run)
        run.queue = source_id
    if point.time_ns >= life.account_ns:
        life.account_ns = point.time_ns
        if point.name == schema.GAUGE_IN_FLIGHT:
            life.in_flight = point.value
        else:
            life.queued = point.value


def roll_back(run: Run) -> None:
    """The queue is gone: what it last held is fed again by the next one, or never."""
    queue = run.sources.get(run.queue)
    if queue is not None:
        run.count(catalog.SAMPLES, "dropped_rollback", by=queue.in_flight + queue.queued)
        queue.in_flight = queue.queued = 0.0


def _is_older(run: Run, source_id: str, other: str) -> bool:
    order = list(run.sources)
    return other in run.sources and order.index(source_id) < order.index(other)
