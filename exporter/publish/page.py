"""/metrics: prometheus_client families, built from one snapshot at each scrape.

What is said of a sealed version never changes: `versions` has the parts of the page that need to be written only
once, `families` all else.
"""

import time
from collections.abc import Iterable, Iterator
from functools import partial

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.samples import Exemplar

from exporter import catalog, state
from exporter.attributes import NS
from exporter.catalog import Family
from exporter.page_writer import Part
from exporter.publish.version_gauges import (
    Gauge,
    annex_gauges,
    reported_gauges,
    sealed_parts,
    version_gauges,
)
from exporter.snapshot import HistogramSnapshot, RunSnapshot, Snapshot
from exporter.state import Annex, SealedWindow

Children = dict[tuple[str, ...], float]


def families(snapshot: Snapshot, now: float) -> Iterator[Metric]:
    """Every family that has a sample, but those of the version window. `now` is unix seconds. What cannot be read,
    as of a journal that another version wrote, is left out, and raised when all else has been given."""
    failures: list[Exception] = []
    for source in _sources(snapshot, failures):
        try:
            yield from source
        except Exception as error:  # whatever it is
            failures.append(error)
    if failures:
        raise ExceptionGroup("left out of the page", failures)


def _sources(snapshot: Snapshot, failures: list[Exception]) -> Iterator[Iterator[Metric]]:
    """Generators, so that one that fails ends itself only. Gauges and histograms, of which a family has samples of many
    runs, append to `failures` what fails of one run."""
    yield _gauges(snapshot, time.monotonic(), failures)
    for family in catalog.FAMILIES:
        if family.kind == "counter":
            yield _counter(family, snapshot)
    for metric in catalog.METRICS:
        if metric.statistic == "distribution":
            yield _histogram(metric, snapshot.runs.values(), failures)


def versions(snapshot: Snapshot) -> Iterator[Part]:
    """What the version windows say, one part for each version."""
    for run in snapshot.runs.values():
        sealed = {(window.attempt, window.version): window for window in run.window}
        for key, window in sealed.items():
            yield _part(*run.annexes.get(key, {}).values(), window)
        for key, annexes in run.annexes.items():
            if key not in sealed:
                yield _part(*annexes.values())


def _part(*items: SealedWindow | Annex) -> Part:
    return Part(items, partial(_version_families, items))


def _version_families(items: tuple[SealedWindow | Annex, ...]) -> Iterator[Metric]:
    """Of two items that say the same series, the later is right: what a sealed version says never changes."""
    gathered: dict[str, tuple[Family, Children]] = {}
    for item in items:
        gauges = annex_gauges(item) if isinstance(item, Annex) else version_gauges(item)
        _gather(gathered, item.run, gauges)
    yield from _gauge_families(gathered)


def _gauges(snapshot: Snapshot, monotonic: float, failures: list[Exception]) -> Iterator[Metric]:
    gathered: dict[str, tuple[Family, Children]] = {}
    for run in snapshot.runs.values():
        for gauges in _run_gauges(run, monotonic):
            try:
                _gather(gathered, run.name, gauges)
            except Exception as error:
                failures.append(error)
    yield from _gauge_families(gathered)


def _gather(gathered: dict[str, tuple[Family, Children]], run: str, gauges: Iterable[Gauge]) -> None:
    for family, labels, value in gauges:
        gathered.setdefault(family.name, (family, {}))[1][run, *labels] = value


def _gauge_families(gathered: dict[str, tuple[Family, Children]]) -> Iterator[Metric]:
    for family, children in gathered.values():
        metric = GaugeMetricFamily(family.name, family.help, labels=family.labels)
        for labels, value in children.items():
            metric.add_metric(labels, value)
        yield metric


def _run_gauges(run: RunSnapshot, monotonic: float) -> Iterator[Iterator[Gauge]]:
    """Generators again."""
    yield _identity_gauges(run)
    yield _timestamp_gauges(run)
    yield _live_gauges(run, monotonic)
    yield _source_gauges(run)
    if run.latest is not None:
        for annex in run.annexes.get((run.latest.attempt, run.latest.version), {}).values():
            yield reported_gauges(annex.reported)
        yield from sealed_parts(run.latest)


def _timestamp_gauges(run: RunSnapshot) -> Iterator[Gauge]:
    for name, stamp in run.timestamps.items():
        yield catalog.FAMILY_BY_NAME[name], (), stamp


def _live_gauges(run: RunSnapshot, monotonic: float) -> Iterator[Gauge]:
    for (name, labels), gauge in run.live.items():
        if gauge.alive(monotonic):
            yield catalog.FAMILY_BY_NAME[name], labels, gauge.value
    for family, held in zip((catalog.SAMPLES_IN_FLIGHT, catalog.SAMPLES_QUEUED), run.account, strict=True):
        if held is not None:
            yield family, (), held


def _source_gauges(run: RunSnapshot) -> Iterator[Gauge]:
    for source in run.sources:
        yield catalog.SOURCE_LAST_SEEN, (source.role, source.rollouter), source.last_seen
        yield catalog.SOURCE_CLOCK_OFFSET, (source.role, source.rollouter), source.clock_offset


def _identity_gauges(run: RunSnapshot) -> Iterator[Gauge]:
    yield catalog.RUN_INFO, (run.algorithm, run.model), 1.0
    for status in catalog.RUN_STATUSES:
        yield catalog.RUN_STATUS, (status,), float(status == run.status)
    yield catalog.RUN_ATTEMPT, (), run.attempt
    optional = (
        (catalog.PARAM_VERSION, run.published),
        (catalog.WINDOW_STRIDE, run.stride),
        (catalog.STEPS_PER_VERSION, run.steps_per_version),
        (catalog.STALENESS_LIMIT, run.staleness_limit),
    )
    for family, value in optional:
        if value is not None:
            yield family, (), value


def _counter(family: Family, snapshot: Snapshot) -> Iterator[Metric]:
    children = {
        (run.name, *labels): value
        for run in snapshot.runs.values()
        for labels, value in run.counters.get(family.name, {}).items()
    }
    if family is catalog.UNATTRIBUTED_RECORDS:
        children = {(reason,): float(count) for reason, count in snapshot.unattributed.items()}
    if children:
        metric = CounterMetricFamily(family.name, family.help, labels=family.labels)
        for labels, value in children.items():
            metric.add_metric(labels, value)
        yield metric


def _histogram(
    metric: catalog.Metric, runs: Iterable[RunSnapshot], failures: list[Exception]
) -> Iterator[Metric]:
    """Cumulative buckets. prometheus_client leaves out `_sum` and `_count` where the first bound is negative."""
    found = [(run.name, run.histograms[metric.name]) for run in runs if metric.name in run.histograms]
    if not found or metric.buckets is None:
        return
    family = HistogramMetricFamily(metric.family(), metric.help, labels=("run",))
    bounds = [*(str(bound) for bound in metric.buckets), "+Inf"]
    for run_name, histogram in found:
        try:
            family.add_metric((run_name,), buckets=_buckets(bounds, histogram), sum_value=histogram.sum)
        except Exception as error:
            failures.append(error)
    yield family


def _buckets(
    bounds: list[str], histogram: HistogramSnapshot
) -> list[tuple[str, float] | tuple[str, float, Exemplar]]:
    cumulative = 0.0
    buckets: list[tuple[str, float] | tuple[str, float, Exemplar]] = []
    for index, (bound, count) in enumerate(zip(bounds, histogram.counts, strict=True)):
        cumulative += count
        span = histogram.exemplars.get(index)
        buckets.append((bound, cumulative) if span is None else (bound, cumulative, _exemplar(span)))
    return buckets


def _exemplar(span: state.Exemplar) -> Exemplar:
    """Written in OpenMetrics only: the text format has no place for it."""
    labels = {"trace_id": span.trace[:16].hex(), "span_id": span.trace[16:].hex()}
    return Exemplar(labels, span.value, span.time_ns / NS)
