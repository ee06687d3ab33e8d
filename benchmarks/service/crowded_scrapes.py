"""How long a request waits for its answer while scrapes go on, beside the same with none."""

import statistics
import threading
import time
from collections.abc import Iterator

import requests

from benchmarks.service.figure import Figure
from benchmarks.service.load import SimulatedRun
from benchmarks.service.started import Started, exporter

ROLLOUTERS = 8
VERSIONS = 100
PAUSE_SECONDS = 0.05
"""Between two requests: a trainer says a step, and waits."""


def measure(scrapes: int = 100, requests_idle: int = 100) -> Iterator[Figure]:
    """`scrapes` one after the other, of the page of some hundred versions, as a scraper asks: OpenMetrics, gzip."""
    with exporter() as started:
        run = SimulatedRun("answered", ROLLOUTERS)
        started.post(run.trainer_body(VERSIONS))
        for body in run.rollouter_bodies(VERSIONS):
            started.post(body)
        idle = [_answer_seconds(started, run) for _ in range(requests_idle)]
        over = threading.Event()
        scraper = threading.Thread(target=_scrape, args=(started.metrics, scrapes, over))
        scraper.start()
        busy = []
        while not over.is_set():
            busy.append(_answer_seconds(started, run))
        scraper.join()
    quiet, loaded = statistics.median(idle), statistics.median(busy)
    yield Figure(
        what=f"answer to a train step while {scrapes} scrapes go on",
        ours=f"{loaded * 1e3:.1f} ms",
        peer=f"no scrapes: {quiet * 1e3:.1f} ms",
        ratio=loaded / quiet,
        target=2,
        held_by="Page and requests share one interpreter: a page being written takes 0.5 ms at each turn.",
    )


def _answer_seconds(started: Started, run: SimulatedRun) -> float:
    body = run.trainer_body(1)
    began = time.perf_counter()
    started.post(body)
    took = time.perf_counter() - began
    for window in run.rollouter_bodies(1):
        started.post(window)
    time.sleep(PAUSE_SECONDS)
    return took


def _scrape(url: str, count: int, over: threading.Event) -> None:
    with requests.Session() as session:
        for _ in range(count):
            session.get(
                f"{url}/metrics", headers={"accept": "application/openmetrics-text"}, timeout=60
            ).raise_for_status()
    over.set()
