"""The exporter's own health, beside what it publishes of the runs."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version

from prometheus_client import ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from exporter.scrape_log import ScrapeLog


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

    def families(self) -> Iterator[Metric]:
        """asyncrl_exporter_* and process_*."""
        build = GaugeMetricFamily(
            "asyncrl_exporter_build_info", "Version of the exporter; always 1.", labels=["version"]
        )
        build.add_metric([_version()], 1.0)
        yield build
        requests = CounterMetricFamily(
            "asyncrl_exporter_requests", "OTLP requests answered.", labels=["signal", "status"]
        )
        for (signal, status), count in sorted(self.requests.items()):
            requests.add_metric([signal, str(status)], count)
        yield requests
        yield CounterMetricFamily(
            "asyncrl_exporter_scrapes", "Pages served on /metrics.", value=self._scrapes.count
        )
        yield CounterMetricFamily(
            "asyncrl_exporter_render_errors",
            "Families left out of a page because writing them failed.",
            value=self.render_errors,
        )
        yield GaugeMetricFamily(
            "asyncrl_exporter_render_duration_seconds",
            "Time that writing the last page took.",
            value=self.render_seconds,
        )
        for families in self.others:
            yield from families()
        yield from self._process.collect()


def _version() -> str:
    try:
        return version("asyncrl-exporter")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "unknown"
