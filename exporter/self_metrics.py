"""The exporter's own health, beside what it publishes of the runs."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from prometheus_client import ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from exporter import catalog
from exporter.catalog import Family
from exporter.ingest import Ingest
from exporter.scrape_log import ScrapeLog

Children = Mapping[tuple[str, ...], float]
"""Label values -> value."""


class SelfMetrics:
    """Plain numbers, moved where things happen and turned into families at each scrape."""

    def __init__(self, scrapes: ScrapeLog) -> None:
        self._scrapes = scrapes
        self._process = ProcessCollector(registry=None)
        self.requests = Counter[tuple[str, int]]()
        """OTLP requests answered, by (signal, HTTP status)."""
        self.others: list[Callable[[], Iterable[Metric]]] = []
        """The families of parts that run only when they are asked for."""
        self.render_errors = 0
        """Families that could not be written, each time."""
        self.render_seconds = 0.0
        """How long the last page took to write."""
        self.scrape_seconds = 0.0
        """How long the last GET /metrics took."""
        self.page_series = 0
        """Series of the runs on the last page."""

    def families(self) -> Iterator[Metric]:
        """asyncrl_exporter_* and process_*. What cannot be read is left out, and raised behind all else."""
        yield metric(catalog.BUILD_INFO, {(_version(),): 1.0})
        requests: Children = {
            (signal, str(status)): n for (signal, status), n in sorted(self.requests.items())
        }
        yield metric(catalog.OTLP_REQUESTS, requests)
        for family, value in (
            (catalog.SCRAPES, self._scrapes.count),
            (catalog.SCRAPE_SECONDS, self.scrape_seconds),
            (catalog.RENDER_SECONDS, self.render_seconds),
            (catalog.RENDER_ERRORS, self.render_errors),
            (catalog.PAGE_SERIES, self.page_series),
        ):
            yield metric(family, {(): value})
        failures: list[Exception] = []
        for families in self.others:
            try:
                yield from families()
            except Exception as error:  # whatever it is
                failures.append(error)
        yield from self._process.collect()
        if failures:
            raise ExceptionGroup("left out of the page", failures)


def ingest_families(ingest: Ingest) -> Iterator[Metric]:
    """How the writer keeps up, and what it could not show."""
    yield metric(catalog.INGEST_QUEUE_BYTES, {(): ingest.queued_bytes})
    yield metric(catalog.JOURNAL_BYTES, {(): ingest.journal.bytes})
    yield metric(catalog.JOURNAL_TORN, {(): ingest.journal.torn_frames})
    yield metric(catalog.SERIES_BUDGET, {(): ingest.config.series_budget})
    dropped: Children = {
        (reason,): ingest.budget.dropped[reason] for reason in catalog.DROPPED_SERIES_REASONS
    }
    yield metric(catalog.DROPPED_SERIES, dropped)


def metric(family: Family, children: Children) -> Metric:
    """The family with a sample for each tuple of label values."""
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    made = kind(family.name, family.help, labels=family.labels)
    for labels, value in children.items():
        made.add_metric(labels, value)
    return made


@cache
def _version() -> str:
    try:
        return version("asyncrl-exporter")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "unknown"
