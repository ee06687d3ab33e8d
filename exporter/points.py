"""Metrics in: live gauges, and cumulative sums whose lives add up. The sample account travels in one request."""

from typing import Final

from exporter import catalog
from exporter.attributes import LARGEST, label
from exporter.errors import Rejected
from exporter.live import LiveGauges
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
MAX_CHILDREN: Final = 1000
_ACCOUNT: Final = (schema.GAUGE_IN_FLIGHT, schema.GAUGE_QUEUED)


def apply_point(run: Run, life: SourceLife, live: LiveGauges, point: Point, monotonic: float) -> None:
    """Take one data point. Raises Rejected. An instrument that the exporter does not know is left alone."""
    sums, gauges = catalog.SUM_FAMILIES.get(point.name), catalog.LIVE_FAMILIES.get(point.name)
    family = sums or gauges
    if family is None:
        return
    if point.kind == "delta":
        raise Rejected("delta", f"{point.name} has delta temporality; send cumulative sums")
    if point.kind != ("sum" if sums else "gauge"):
        raise Rejected("bad_value", f"{point.name} came as {point.kind}")
    high = LARGEST if family.high is None else family.high
    if not 0 <= point.value <= high:
        raise Rejected("bad_value", f"{point.name} is {point.value}, expected 0..{high:g}")
    labels = _labels(family, point)
    if "rollouter" in family.labels and life.role == schema.ROLLOUTER_ROLE:
        life.slot = labels[family.labels.index("rollouter") - 1]
    if sums:
        _add(run, life, family, labels, point)
    elif point.name in _ACCOUNT:
        _account(run, life, point)
    elif not life.ended and run.ended_at is None:
        key = (family.name, labels)
        live.set(
            run.name,
            key,
            value=point.value,
            time_ns=point.time_ns,
            source_id=point.source.source_id,
            monotonic=monotonic,
        )


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
    """Add the increment of a cumulative sum. A later start is a new life of the series, and begins at 0."""
    children = run.counters.setdefault(family.name, {})
    if labels not in children and len(children) >= MAX_CHILDREN:
        raise Rejected("limit", f"{family.name} has {MAX_CHILDREN} series already")
    series = life.sums.setdefault(family.name, {})
    last = series.get(labels)
    if last is not None and (point.start_ns, point.time_ns) <= (last.start_ns, last.time_ns):
        return  # older than what is known, or the same again
    before = last.value if last is not None and last.start_ns == point.start_ns else 0.0
    if point.value < before:
        raise Rejected("bad_value", f"{point.name} fell from {before} to {point.value} within one life")
    series[labels] = Series(start_ns=point.start_ns, time_ns=point.time_ns, value=point.value)
    run.count(family, *labels, by=point.value - before)


def _account(run: Run, life: SourceLife, point: Point) -> None:
    """What the queue holds. A new queue of the run takes over: what the old one still held was rolled back."""
    source_id = point.source.source_id
    if run.queue != source_id:
        if life.ended or (run.queue and _is_older(run, source_id, run.queue)):
            return
        if run.queue in run.sources:
            old = run.sources[run.queue]
            run.count(catalog.SAMPLES, "dropped_rollback", by=old.in_flight + old.queued)
            old.in_flight = old.queued = 0.0
        run.queue = source_id
    if point.time_ns >= life.account_ns:
        life.account_ns = point.time_ns
        if point.name == schema.GAUGE_IN_FLIGHT:
            life.in_flight = point.value
        else:
            life.queued = point.value


def _is_older(run: Run, source_id: str, other: str) -> bool:
    order = list(run.sources)
    return other in run.sources and order.index(source_id) < order.index(other)
