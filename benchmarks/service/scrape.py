"""A scrape of a large page, beside `prometheus_client.generate_latest` of the same page.

Before each scrape all live gauges change and one more version is sealed. Ours is the whole GET over HTTP, the peer
only gathers and writes: a registry of gauges that holds the same series.
"""

import statistics
import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.service.figure import Figure
from benchmarks.service.load import SimulatedRun
from benchmarks.service.started import Started, exporter

ROLLOUTERS = 8
VERSIONS_PER_REQUEST = 20
_HELD_BY = (
    "Of some 7 ms, HTTP and the event loop take 2.2, building the families of the runs 1.4, writing the 92 of 132 that "
    "have changed 1.3, the new version 0.7, the exporter's own families 0.5, the older versions 0.5: only these are "
    "fewer on a small page."
)


def _same_page(page: bytes) -> CollectorRegistry:
    """The series of a page as a process that uses prometheus_client would hold them: one gauge for each name."""
    registry = CollectorRegistry(auto_describe=False)
    gauges: dict[str, Gauge] = {}
    for family in text_string_to_metric_families(page.decode()):
        for sample in family.samples:
            if sample.name not in gauges:
                names = tuple(sample.labels)
                gauges[sample.name] = Gauge(sample.name, family.documentation, names, registry=registry)
            gauge = gauges[sample.name]
            (gauge.labels(**sample.labels) if sample.labels else gauge).set(sample.value)
    return registry


def measure(sizes: tuple[int, ...] = (10_000, 100_000), rounds: int = 15) -> Iterator[Figure]:
    for size in sizes:
        flags = ("--series-budget", str(2 * size), "--window-versions", str(size), "--window-seconds", "1e6")
        with exporter(*flags) as started:
            run = SimulatedRun("scraped", ROLLOUTERS)
            while _series(started.scrape()) < size:
                _say(started, run, VERSIONS_PER_REQUEST)
            yield _measure_page(started, run, size, rounds)


def _say(started: Started, run: SimulatedRun, versions: int) -> None:
    started.post(run.trainer_body(versions))
    for body in run.rollouter_bodies(versions):
        started.post(body)
    for body in run.live_bodies(run.version):
        started.post(body, "metrics")


def _series(page: bytes) -> int:
    return sum(not line.startswith(b"#") for line in page.splitlines())


def _measure_page(started: Started, run: SimulatedRun, size: int, rounds: int) -> Figure:
    costs, waits = [], []
    for _ in range(rounds):
        _say(started, run, 1)
        cpu, began = started.cpu_seconds, time.perf_counter()
        page = started.scrape()
        waits.append(time.perf_counter() - began)
        costs.append(started.cpu_seconds - cpu)
    same = _same_page(page)
    peers = []
    for _ in range(max(rounds // 3, 3)):
        cpu = time.process_time()
        written = generate_latest(same)
        peers.append(time.process_time() - cpu)
    assert _series(written) == _series(page)
    ours, peer = statistics.median(costs), statistics.median(peers)
    return Figure(
        what=f"scrape of {_series(page):,} series ({len(page) / 1e6:.1f} MB), CPU time",
        ours=f"{ours * 1e3:.1f} ms (by the clock, read to its end: {statistics.median(waits) * 1e3:.0f} ms)",
        peer=f"generate_latest: {peer * 1e3:.0f} ms",
        ratio=ours / peer,
        target=1 / 20,
        held_by=_HELD_BY,
    )
