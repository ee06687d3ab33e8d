"""SIGKILL while batches are unacknowledged: nothing acknowledged is lost, nothing is counted twice."""

import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import requests
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.exporter.conftest import StartedExporter, StartExporter
from tests.wire import WATCHDOG_SECONDS, Emitter, Scrape

STEPS_PER_VERSION = 3
KILLS = 20


class Sender(threading.Thread):
    """Posts one window after the other, repeats what was not acknowledged, and notes what was."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.emitter = Emitter(url)
        self.acknowledged = 0
        self.unanswered = 0
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.is_set():
            spans = self._window(self.acknowledged + 1)
            while not self._post(spans):
                time.sleep(0.005)
            self.acknowledged += 1

    def _window(self, version: int) -> list[Span]:
        first = (version - 1) * STEPS_PER_VERSION + 1
        steps = [
            self.emitter.train_step(
                version, step, values={"grad_norm": float(step)}, sample_count=8, token_count=step
            )
            for step in range(first, first + STEPS_PER_VERSION)
        ]
        return [*steps, self.emitter.weight_sync(version, STEPS_PER_VERSION)]

    def _post(self, spans: list[Span]) -> bool:
        try:
            return self.emitter.post(*spans).status == 200
        except requests.RequestException:
            self.unanswered += 1
            return False


def history(exporter: StartedExporter) -> list[dict[str, Any]]:
    """All versions of the run, page by page."""
    versions: list[dict[str, Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        query = {"cursor": cursor, "limit": "100"}
        url = f"{exporter.metrics}/api/v1/runs/r/versions"
        answer = requests.get(url, params=query, timeout=WATCHDOG_SECONDS).json()
        versions += answer["versions"]
        cursor = answer["next"]
    return versions


def test_nothing_acknowledged_is_lost_and_nothing_counted_twice_over_twenty_kills(
    start_exporter: StartExporter, tmp_path: Path
) -> None:
    chance = random.Random(20)
    exporter = start_exporter(data_dir=tmp_path / "data")
    sender = Sender(exporter.otlp)
    sender.start()
    for _ in range(KILLS):
        before = sender.acknowledged
        deadline = time.monotonic() + WATCHDOG_SECONDS
        while sender.acknowledged < before + 2:
            assert time.monotonic() < deadline, "the restarted exporter acknowledges nothing"
            time.sleep(0.002)
        time.sleep(chance.uniform(0, 0.05))
        exporter.stop(signal.SIGKILL)
        exporter = start_exporter(data_dir=tmp_path / "data")
        sender.emitter.url = exporter.otlp
    sender.done.set()
    sender.join(WATCHDOG_SECONDS)
    assert not sender.is_alive()
    assert sender.unanswered >= KILLS, "each kill met a batch that was on its way"

    steps = sender.acknowledged * STEPS_PER_VERSION
    page = Scrape(exporter.metrics)
    assert page.value("asyncrl_param_version", run="r") == sender.acknowledged
    assert page.value("asyncrl_train_steps_total", run="r") == steps
    assert page.value("asyncrl_tokens_total", run="r", kind="trained") == steps * (steps + 1) / 2
    assert page.value("asyncrl_versions_sealed_total", run="r", complete="true") == sender.acknowledged
    assert page.value("asyncrl_versions_sealed_total", run="r", complete="false") == 0
    assert page.value("asyncrl_lost_records_total", run="r", role="trainer") == 0
    said = [
        (each["param_version"], each["complete"], each["metrics"]["grad_norm"]) for each in history(exporter)
    ]
    assert said == [
        (version, True, (version - 1) * STEPS_PER_VERSION + 2.0)
        for version in range(1, sender.acknowledged + 1)
    ]
