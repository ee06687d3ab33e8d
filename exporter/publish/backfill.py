"""The history as OpenMetrics with timestamps, which `promtool tsdb create-blocks-from openmetrics` takes."""

from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Timestamp

from exporter.negotiation import OPENMETRICS
from exporter.publish.history import Page
from exporter.publish.version_gauges import timed_gauges
from exporter.state import Annex, SealedWindow

_MILLISECOND_NS = 1_000_000


class _Families(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def versions_openmetrics(page: Page) -> bytes:
    """The published versions of the page, each as samples at its time; names and labels are those of /metrics."""
    families: dict[str, GaugeMetricFamily] = {}
    for window in page.windows:
        if not window.published:
            continue
        time = sample_time(window.timestamp_ns)
        said: list[SealedWindow | Annex] = [window, *page.annexes.get((window.attempt, window.version), [])]
        for item in said:
            for family, labels, value in timed_gauges(item):
                if family.name not in families:
                    families[family.name] = GaugeMetricFamily(family.name, family.help, labels=family.labels)
                families[family.name].add_metric((page.run, *labels), value, timestamp=time)
    return OPENMETRICS.encode(_Families(families.values()))


def sample_time(timestamp_ns: int) -> Timestamp:
    """The middle of the millisecond: Prometheus cuts seconds off to milliseconds in floating point, and the
    beginning of one, rounded down, would land in the millisecond before."""
    seconds, milliseconds = divmod(timestamp_ns // _MILLISECOND_NS, 1000)
    return Timestamp(seconds, milliseconds * _MILLISECOND_NS + _MILLISECOND_NS // 2)
