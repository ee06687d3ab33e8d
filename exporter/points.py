"""Metrics in: live gauges, and cumulative sums whose lives add up. The sample account travels in one request."""

from bisect import insort
from collections.abc import Iterator, Sequence
from typing import Final

from exporter import catalog
from exporter.attributes import LARGEST, label
from exporter.errors import Rejected
from exporter.live import SHORTEST_TTL_SECONDS, Key, LiveGauges
from exporter.records import AttributeValue, Point
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
_FAMILIES: Final = {**catalog.SUM_FAMILIES, **catalog.LIVE_FAMILIES}
"""By the name of the instrument."""
_ONE_HOT: Final = (catalog.ROLLOUTER_STATE, catalog.TRAINER_STATE)
_WHOLE: Final = frozenset(family.name for family in (*_ONE_HOT, catalog.ROLLOUTER_PARAM_VERSION))
"""Families between whose values there is nothing."""
MAX_CHILDREN: Final = 1000
MAX_STARTS: Final = 4
"""Lives of one series of one source that are still told apart; a start is the beginning of a life."""
_ACCOUNT: Final = frozenset((schema.SUM_FED, schema.SUM_SAMPLES, schema.GAUGE_IN_FLIGHT, schema.GAUGE_QUEUED))
Said = tuple[catalog.Family, Labels, Point]


def apart(points: Sequence[Point]) -> Iterator[list[Point]]:
    """Each point by itself, but those of the sample account that one source gives of one run in one request."""
    accounts: dict[tuple[int, AttributeValue | None], list[Point]] = {}
    for point in points:
        if point.name in _ACCOUNT:
            whose = (id(point.source), point.attributes.get(schema.RUN_ID))
            accounts.setdefault(whose, []).append(point)
        else:
            yield [point]
    yield from accounts.values()


def apply_points(
    run: Run, life: SourceLife, live: LiveGauges, points: Sequence[Point], monotonic: float
) -> None:
    """Take what `apart` keeps together: one data point, or a sample account as a whole. Raises Rejected; then nothing
    of it is taken."""
    if points[0].name in _ACCOUNT:
        _account(run, life, sorted(points, key=lambda point: point.time_ns))
    else:
        _apply_point(run, life, live, points[0], monotonic)


def _apply_point(run: Run, life: SourceLife, live: LiveGauges, point: Point, monotonic: float) -> None:
    if point.name not in _FAMILIES:  # an instrument that the exporter does not know is left alone
        return
    family, labels, _ = _read(point)
    if "rollouter" in family.labels and life.role == schema.ROLLOUTER_ROLE:
        life.slot = labels[family.labels.index("rollouter") - 1]
    if point.name in catalog.SUM_FAMILIES:
        _add(run, life, family, labels, point)
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


def _read(point: Point) -> Said:
    family = _FAMILIES[point.name]
    _check(family, "sum" if point.name in catalog.SUM_FAMILIES else "gauge", point)
    return family, _labels(family, point), point


def _check(family: catalog.Family, kind: str, point: Point) -> None:
    if point.kind == "delta":
        raise Rejected("delta", f"{point.name} has delta temporality; send cumulative sums")
    if point.kind != kind:
        raise Rejected("bad_value", f"{point.name} came as {point.kind}")
    high = LARGEST if family.high is None else family.high
    if not 0 <= point.value <= high:
        raise Rejected("bad_value", f"{point.name} is {point.value}, expected 0..{high:g}")
    if family.name in _WHOLE and not point.value.is_integer():
        raise Rejected("bad_value", f"{point.name} is {point.value}, expected an integer")


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
    last = _series(lives, point)
    if last is None:
        if len(lives) >= MAX_STARTS and point.start_ns < lives[0].start_ns:
            return  # of a life that is long over
        last = Series(start_ns=point.start_ns)
        insort(lives, last, key=lambda series: series.start_ns)
        del lives[:-MAX_STARTS]
    elif _is_older(point, last) or (point.time_ns, point.value) == (last.time_ns, last.value):
        return
    _check_rise(point, last.value)
    run.count(family, *labels, by=point.value - last.value)
    last.time_ns, last.value = point.time_ns, point.value


def _series(lives: Sequence[Series], point: Point) -> Series | None:
    return next((series for series in lives if series.start_ns == point.start_ns), None)


def _is_older(point: Point, last: Series) -> bool:
    """Of one time, as of senders that give none, the smaller is older: sums only rise."""
    return (point.time_ns, point.value) < (last.time_ns, last.value)


def _check_rise(point: Point, before: float) -> None:
    if point.value < before:
        raise Rejected("bad_value", f"{point.name} fell from {before} to {point.value} within one life")


def _account(run: Run, life: SourceLife, points: Sequence[Point]) -> None:
    """The points of one account, the oldest first. All of them are looked at before one is taken, so that fed is what
    became of it at every instant."""
    said = [_read(point) for point in points]
    source_id = points[0].source.source_id
    started_ns = max(life.account_start_ns, *(point.start_ns for point in points))
    if _is_replaced(run, source_id, life, started_ns):
        return  # its account was closed when the newer queue took over
    sums = [each for each in said if each[2].name in catalog.SUM_FAMILIES]
    if _is_known(life, sums):
        return
    life.account_start_ns = started_ns
    for family, labels, point in sums:
        _add(run, life, family, labels, point)
    for _, _, point in said:
        if point.name in catalog.LIVE_FAMILIES and (
            run.queue == source_id or _take_over(run, life, source_id)
        ):
            _hold(life, point)


def _is_known(life: SourceLife, sums: Sequence[Said]) -> bool:
    """Whether a newer account was here before. Raises Rejected for a sum that falls."""
    known: dict[tuple[str, Labels, int], float] = {}
    for family, labels, point in sums:
        last = _series(life.sums.get(family.name, {}).get(labels, ()), point)
        if last is not None and _is_older(point, last):
            return True
        series = (family.name, labels, point.start_ns)
        _check_rise(point, known.get(series, last.value if last else 0.0))
        known[series] = point.value
    return False


def _take_over(run: Run, life: SourceLife, source_id: str) -> bool:
    """A new queue of the run: what the old one still held was rolled back."""
    if life.ended:
        return False
    roll_back(run)
    run.queue = source_id
    return True


def _hold(life: SourceLife, point: Point) -> None:
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
        run.count(catalog.SAMPLES, "dropped_rollback", by=(queue.in_flight or 0.0) + (queue.queued or 0.0))
        queue.in_flight = None if queue.in_flight is None else 0.0
        queue.queued = None if queue.queued is None else 0.0


def _is_replaced(run: Run, source_id: str, life: SourceLife, started_ns: int) -> bool:
    """Whether the queue whose account is on the page is a newer one: it started later or, where one of them does not
    say when it did, it was first heard later. One that fell silent, its clock ahead or not, hides no successor."""
    queue = run.sources.get(run.queue)
    if queue is None or run.queue == source_id:
        return False
    if started_ns and queue.account_start_ns and started_ns != queue.account_start_ns:
        is_silent = life.last_seen - queue.last_seen > SHORTEST_TTL_SECONDS
        return started_ns < queue.account_start_ns and not is_silent
    order = list(run.sources)
    return order.index(source_id) < order.index(run.queue)
