"""Many runs and rollouters at once: throughput and lag as their number grows, and a plot of both.

Every turn each run says a version: the trainer's steps and sync, a window and the live gauges of each rollouter, each
in a request of its own, eight at a time. The lag is from a request's start until it is journalled and on the page.
"""

import itertools
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import requests

from benchmarks.service.figure import Figure
from benchmarks.service.load import STEPS, VALUES, SimulatedRun
from benchmarks.service.plot import Curve, plot
from benchmarks.service.started import PROTOBUF, Started, exporter

ROLLOUTERS_PER_RUN = 20
RUNS = (1, 5, 10, 25, 50)
CONNECTIONS = 8
TURNS = 5
PLOT = "docs/crowd.svg"


def measure(runs: tuple[int, ...] = RUNS, path: str = PLOT) -> Iterator[Figure]:
    """Writes the plot to `path`."""
    rates, medians, slowest = [], [], []
    for count in runs:
        with exporter() as started:
            rate, lags = _measure_crowd(started, count)
        rates.append(rate)
        medians.append(statistics.median(lags) * 1e3)
        slowest.append(statistics.quantiles(lags, n=100)[98] * 1e3)
        yield Figure(
            what=f"{count * ROLLOUTERS_PER_RUN:,} rollouters of {count} runs",
            ours=f"{rate:,.0f} requests/s, lag {medians[-1]:.0f} ms, of the slowest 1 % {slowest[-1]:.0f} ms",
        )
    rollouters = [float(count * ROLLOUTERS_PER_RUN) for count in runs]
    plot(
        path,
        x="rollouters",
        curves=(
            Curve(name="requests per second", x=rollouters, y=rates),
            Curve(name="lag, median, ms", x=rollouters, y=medians),
            Curve(name="lag, 99th percentile, ms", x=rollouters, y=slowest),
        ),
    )


def _measure_crowd(started: Started, count: int) -> tuple[float, list[float]]:
    """Requests per second, and the seconds that each took."""
    crowd = [SimulatedRun(f"run-{number}", ROLLOUTERS_PER_RUN) for number in range(count)]
    lags: list[float] = []
    busy = 0.0
    connection = threading.local()

    def post(request: tuple[str, bytes]) -> float:
        if not hasattr(connection, "session"):
            connection.session = requests.Session()
        began = time.perf_counter()
        url = f"{started.otlp}/v1/{request[0]}"
        answer = connection.session.post(url, request[1], headers={"content-type": PROTOBUF}, timeout=600)
        answer.raise_for_status()
        assert not answer.content, answer.content
        return time.perf_counter() - began

    with ThreadPoolExecutor(CONNECTIONS) as senders:
        for _ in range(TURNS):
            said = [list(_says(run)) for run in crowd]
            began = time.perf_counter()
            lags.extend(senders.map(post, itertools.chain(*said)))
            busy += time.perf_counter() - began
    for run in crowd:
        steps = started.value(f'asyncrl_train_steps_total{{run="{run.name}"}}')
        assert steps == TURNS * STEPS, f"{steps} steps of {run.name} with {VALUES} values each"
    return len(lags) / busy, lags


def _says(run: SimulatedRun) -> Iterator[tuple[str, bytes]]:
    yield "traces", run.trainer_body(1)
    yield from (("traces", body) for body in run.rollouter_bodies(1))
    yield from (("metrics", body) for body in run.live_bodies(run.version))
