"""Memory, scrape and restart while sealed versions pile up, at full speed; what they take on disk, and give back.

Slopes are least squares over the second half: by then the version window is full.
"""

import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.service.figure import Figure
from benchmarks.service.load import VALUES, SimulatedRun
from benchmarks.service.started import Started, exporter

VERSIONS_PER_REQUEST = 200
LEGS = 20
SCRAPES = 5
_PATIENCE_SECONDS = 120.0


def measure(versions: int = 100_000) -> Iterator[Figure]:
    """One run, a step of 60 values for each version."""
    run = SimulatedRun("flat", 1)
    counts: list[float] = []
    memory: list[float] = []
    scrapes: list[float] = []
    restarts: list[float] = []
    disk: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder) / "data"
        data_dir.mkdir()
        with exporter(data_dir=data_dir) as started:
            for leg in range(1, LEGS + 1):
                while run.version < versions * leg / LEGS:
                    started.post(run.trainer_body(VERSIONS_PER_REQUEST, steps=1))
                    for body in run.rollouter_bodies(VERSIONS_PER_REQUEST):
                        started.post(body)
                counts.append(run.version)
                scrapes.append(_scrape_milliseconds(started))
                memory.append(started.memory_mib)
                disk.append(_bytes(data_dir) / 1e6)
                restarts.append(_restart_seconds(data_dir))
            started.post(run.end_body())
        freed = _after_retention(data_dir)
    what = f"over {versions:,} sealed versions of {VALUES} values"
    yield Figure(what=f"memory {what}", ours=_said(counts, memory, "MiB"))
    yield Figure(what=f"CPU time of a scrape {what}", ours=_said(counts, scrapes, "ms"))
    yield Figure(what=f"start until ready {what}", ours=_said(counts, restarts, "s"))
    yield Figure(
        what="journal, per version",
        ours=f"{(disk[-1] - disk[0]) / (counts[-1] - counts[0]) * 1e6:,.0f} bytes",
    )
    yield Figure(what="journal once the retention is over", ours=f"{disk[-1]:.1f} MB -> {freed:.1f} MB")


def _said(counts: Sequence[float], values: Sequence[float], unit: str) -> str:
    half = len(counts) // 2
    slope = statistics.linear_regression(counts[half:], values[half:]).slope * 10_000
    ends = f"{values[half]:.3g} {unit} after {counts[half]:,.0f}, {values[-1]:.3g} {unit} at the end"
    return f"{ends}; slope {slope:+.2g} {unit} per 10,000"


def _scrape_milliseconds(started: Started) -> float:
    costs = []
    for _ in range(SCRAPES):
        cpu = started.cpu_seconds
        started.scrape()
        costs.append(started.cpu_seconds - cpu)
    return statistics.median(costs) * 1e3


def _bytes(data_dir: Path) -> int:
    return sum(file.stat().st_size for file in data_dir.glob("journal.sqlite*"))


def _restart_seconds(data_dir: Path) -> float:
    """On a copy, made while nothing is written, as a crash would leave it."""
    with tempfile.TemporaryDirectory() as folder:
        for file in data_dir.glob("journal.sqlite*"):
            shutil.copy(file, folder)
        with exporter(data_dir=Path(folder)) as started:
            return started.ready_seconds


def _after_retention(data_dir: Path) -> float:
    """Megabytes that are left when the run has ended and its time is over."""
    until = time.monotonic() + _PATIENCE_SECONDS
    full = _bytes(data_dir)
    with exporter("--retention-days", "1e-5", "--finished-run-grace", "0", data_dir=data_dir):
        while _bytes(data_dir) > full / 2 and time.monotonic() < until:
            time.sleep(0.1)
    return _bytes(data_dir) / 1e6
