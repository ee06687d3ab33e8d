"""The gauges of one sealed version, and of its annexes: what the latest page and the version window both show."""

from collections.abc import Iterator
from itertools import chain

from exporter import catalog
from exporter.attributes import NS
from exporter.catalog import Family
from exporter.state import Annex, Clocked, Scope, SealedWindow

Gauge = tuple[Family, tuple[str, ...], float]
"""Family, the values of its labels but `run`, value."""


def idle_ratio(times: Clocked) -> float | None:
    """Idle over version_time, idle being all that is not active; None for a version of no length."""
    total_ns = times.version_time_ns
    return (total_ns - times.active_ns) / total_ns if total_ns else None


def utilization_ratio(times: Clocked) -> float | None:
    """Busy over offered capacity; None without capacity."""
    return times.busy_capacity_ns / times.capacity_ns if times.capacity_ns else None


def merged(clocked: list[Clocked]) -> Clocked:
    """The times of several rollouters, added: ratios over them are ratios of sums."""
    capacities = [times for times in clocked if times.capacity_ns is not None]
    return Clocked(
        state_ns={"": sum(times.version_time_ns for times in clocked)},
        active_ns=sum(times.active_ns for times in clocked),
        capacity_ns=sum(times.capacity_ns or 0 for times in capacities) if capacities else None,
        busy_capacity_ns=sum(times.busy_capacity_ns for times in capacities),
    )


def sealed_parts(sealed: SealedWindow) -> Iterator[Iterator[Gauge]]:
    """What the latest gauges show of a version, in generators: one that fails ends itself only. A value that the
    version has not is not there."""
    yield _trainer_gauges(sealed.trainer)
    yield _rollouter_gauges(sealed.rollouters)
    yield _value_gauges(sealed.values)
    yield _user_gauges(sealed.values)
    yield reported_gauges(sealed.reported)


def sealed_gauges(sealed: SealedWindow) -> Iterator[Gauge]:
    """All of them."""
    return chain.from_iterable(sealed_parts(sealed))


def _user_gauges(values: Scope) -> Iterator[Gauge]:
    for name, value in values.user.items():
        yield catalog.unknown_family(name, "A metric of the sender's own"), (), value


def reported_gauges(reported: dict[str, dict[str, float]]) -> Iterator[Gauge]:
    """What senders computed themselves."""
    for source, values in reported.items():
        for name, value in values.items():
            family = catalog.unknown_family(
                catalog.REPORTED_PREFIX + name, "As the sender computed it, not checked", "source"
            )
            yield family, (source,), value


def version_gauges(sealed: SealedWindow) -> Iterator[Gauge]:
    """The same version in the version window, labelled with attempt and version."""
    at = (str(sealed.attempt), str(sealed.version))
    for family, labels, value in sealed_gauges(sealed):
        versioned = catalog.VERSIONED.get(family.name)
        if versioned is None and family.name.startswith(catalog.REPORTED_PREFIX):
            versioned = catalog.version_family(family)
        if versioned is not None:
            yield versioned, (*at, *labels), value
    yield catalog.VERSION_ONLY[catalog.VERSION_TRAIN_STEPS], at, sealed.train_steps
    if sealed.sample_count is not None:
        yield catalog.VERSION_ONLY[catalog.VERSION_SAMPLES], at, sealed.sample_count
    yield catalog.VERSION_ONLY[catalog.VERSION_COMPLETE], at, 0.0 if sealed.reasons else 1.0
    yield catalog.VERSION_ONLY[catalog.VERSION_PUBLISHED], at, sealed.timestamp_ns / NS


def annex_gauges(annex: Annex) -> Iterator[Gauge]:
    """What an annex adds to the version window."""
    at = (str(annex.attempt), str(annex.version))
    if annex.sample_count is not None and annex.kind in catalog.ANNEX_SAMPLES:
        yield catalog.ANNEX_SAMPLES[annex.kind], at, annex.sample_count
    if annex.size_bytes is not None and annex.kind == "checkpoint":
        yield catalog.CHECKPOINT_BYTES, at, annex.size_bytes
    for family, _, value in _value_gauges(annex.values):
        named = catalog.FAMILY_BY_NAME.get(catalog.annex_family(annex.kind, family).name)
        if named is not None:
            yield named, at, value
    for family, labels, value in reported_gauges(annex.reported):
        yield catalog.version_family(family), (*at, *labels), value


def timed_gauges(item: SealedWindow | Annex) -> Iterator[Gauge]:
    """What is said of a version at its time, where time tells versions apart: neither attempt nor version is a
    label, they are series of their own."""
    if isinstance(item, Annex):
        versioned = annex_gauges(item)
    else:
        yield catalog.PARAM_VERSION, (), item.version
        yield catalog.RUN_ATTEMPT, (), item.attempt
        yield from sealed_gauges(item)
        versioned = (gauge for gauge in version_gauges(item) if gauge[0] in catalog.VERSION_ONLY.values())
    for family, (_attempt, _version, *labels), value in versioned:
        yield catalog.timed_family(family), tuple(labels), value


def _trainer_gauges(times: Clocked) -> Iterator[Gauge]:
    idle = idle_ratio(times)
    if idle is not None:
        yield catalog.TRAINER_IDLE, (), idle
        yield catalog.TRAINER_WAIT, (), times.state_ns.get("waiting_samples", 0) / times.version_time_ns
    if not times.state_ns:
        return
    yield catalog.TRAINER_ACTIVE, (), times.active_ns / NS
    yield catalog.TRAINER_VERSION, (), times.version_time_ns / NS


def _rollouter_gauges(rollouters: dict[str, Clocked]) -> Iterator[Gauge]:
    for slot, times in rollouters.items():
        if len(rollouters) > catalog.MAX_ROLLOUTERS:
            break
        idle, utilization = idle_ratio(times), utilization_ratio(times)
        if idle is not None:
            yield catalog.ROLLOUTER_IDLE, (slot,), idle
        if utilization is not None:
            yield catalog.ROLLOUTER_UTILIZATION, (slot,), utilization
        if times.state_ns:
            yield catalog.ROLLOUTER_ACTIVE, (slot,), times.active_ns / NS
            yield catalog.ROLLOUTER_VERSION, (slot,), times.version_time_ns / NS
    if not rollouters:
        return
    together = merged(list(rollouters.values()))
    yield from _spread_of(
        (catalog.ROLLOUTERS_IDLE, catalog.ROLLOUTERS_IDLE_MIN, catalog.ROLLOUTERS_IDLE_MAX),
        idle_ratio(together),
        [idle_ratio(times) for times in rollouters.values()],
    )
    yield from _spread_of(
        (
            catalog.ROLLOUTERS_UTILIZATION,
            catalog.ROLLOUTERS_UTILIZATION_MIN,
            catalog.ROLLOUTERS_UTILIZATION_MAX,
        ),
        utilization_ratio(together),
        [utilization_ratio(times) for times in rollouters.values()],
    )


def _spread_of(
    families: tuple[Family, Family, Family], together: float | None, each: list[float | None]
) -> Iterator[Gauge]:
    known = [value for value in each if value is not None]
    if together is not None and known:
        for family, value in zip(families, (together, min(known), max(known)), strict=True):
            yield family, (), value


def _value_gauges(values: Scope) -> Iterator[Gauge]:
    for name, value in values.scalars.items():
        yield catalog.METRIC_FAMILIES[name][0], (), value
    for name, spread in values.distributions.items():
        low, high = spread.extremes or (None, None)
        statistics = {"mean": spread.mean, "min": low, "max": high, "std": spread.std}
        for statistic, family in zip(
            catalog.DISTRIBUTION_STATISTICS, catalog.METRIC_FAMILIES[name], strict=False
        ):
            value_or_none = statistics[statistic]
            if value_or_none is not None:
                yield family, (), value_or_none
