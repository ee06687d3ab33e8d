"""The history as OpenMetrics with timestamps, which `promtool tsdb create-blocks-from openmetrics` takes."""

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.samples import Timestamp

from exporter.negotiation import OPENMETRICS
from exporter.publish.history import Page
from exporter.publish.version_gauges import timed_gauges
from exporter.state import Annex, SealedWindow

_MILLISECOND_NS = 1_000_000


def versions_openmetrics(page: Page) -> bytes:
    """The published versions of the page, each as samples at its time; names and labels are those of /metrics."""
    families: dict[str, GaugeMetricFamily] = {}
    known: set[tuple[str, tuple[str, ...], int]] = set()
    """Families, labels and times: a series has one sample at a time."""
    for item, timestamp_ns in _said(page):
        time = sample_time(timestamp_ns)
        for family, labels, value in timed_gauges(item):
            if (at := (family.name, labels, timestamp_ns)) in known:
                continue
            known.add(at)
            if family.name not in families:
                families[family.name] = GaugeMetricFamily(family.name, family.help, labels=family.labels)
            families[family.name].add_metric((page.run, *labels), value, timestamp=time)
    texts = map(OPENMETRICS.write, families.values())
    return b"".join(piece for text in texts for piece in text) + OPENMETRICS.end


def _said(page: Page) -> Iterator[tuple[SealedWindow | Annex, int]]:
    """Windows and annexes with the time of their version; of an annex whose version has no window, its own. What is
    right of two that say the same series comes first."""
    times = {
        (window.attempt, window.version): window.timestamp_ns for window in page.windows if window.published
    }
    for window in page.windows:
        if window.published:
            yield window, window.timestamp_ns
    for at, annexes in page.annexes.items():
        for annex in sorted(annexes, key=lambda annex: annex.timestamp_ns, reverse=True):
            yield annex, times.get(at, annex.timestamp_ns)


def sample_time(timestamp_ns: int) -> Timestamp:
    """The middle of the millisecond: Prometheus cuts seconds off to milliseconds in floating point, and the
    beginning of one, rounded down, would land in the millisecond before."""
    seconds, milliseconds = divmod(timestamp_ns // _MILLISECOND_NS, 1000)
    return Timestamp(seconds, milliseconds * _MILLISECOND_NS + _MILLISECOND_NS // 2)
