"""A real `asyncrl run` in processes of its own, timed by the lines that it prints, and an exporter to send to."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import requests

ROOT = Path(__file__).parents[1]
START_SECONDS = 60.0
POLL_SECONDS = 0.1


class Exporter(NamedTuple):
    """Base URLs of a running exporter."""

    metrics: str
    otlp: str

    def get(self, path: str) -> requests.Response:
        answer = requests.get(self.metrics + path, timeout=START_SECONDS)
        answer.raise_for_status()
        return answer


@contextmanager
def running_exporter(directory: Path) -> Iterator[Exporter]:
    """An exporter on free ports, its journal in `directory`; stopped at the end."""
    endpoints, log = directory / "endpoints.json", directory / "exporter.log"
    addresses = ("--listen", "127.0.0.1:0", "--otlp", "127.0.0.1:0")
    files = ("--data-dir", str(directory / "journal"), "--endpoints-file", str(endpoints))
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", str(ROOT / "asyncrl.py"), "exporter", *addresses, *files], stderr=output
        )
    try:
        deadline = time.monotonic() + START_SECONDS
        while not endpoints.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"the exporter did not start: {log.read_text()}")
            time.sleep(POLL_SECONDS)
        yield Exporter(**json.loads(endpoints.read_text()))
    finally:
        process.terminate()
        process.wait()


class TrainingRun(NamedTuple):
    """What a run said of itself, and its pace as seen from outside."""

    summary: dict[str, Any]
    steps_per_second: float
    """From the publication of version 1 to that of the last: start and end of the run are not in it."""


def train(directory: Path, endpoint: str, settings: Mapping[str, object]) -> TrainingRun:
    """One run with these settings, its folder in `directory`, its telemetry sent to `endpoint`.

    Ends the benchmark if the run fails, with what it said.
    """
    chosen = {"runs_dir": directory, "telemetry.endpoints": json.dumps([endpoint]), **settings}
    flags = [f"--set={key}={value}" for key, value in chosen.items()]
    published: list[float] = []
    log = directory / "run.log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [sys.executable, "-P", str(ROOT / "asyncrl.py"), "run", *flags],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        published += [time.monotonic() for line in process.stdout if line.startswith("version ")]
    if process.returncode != 0:
        sys.exit(f"asyncrl run ended with {process.returncode}: {log.read_text()[-4000:]}")
    (summary_file,) = directory.glob("*/summary.json")
    summary = json.loads(summary_file.read_text())
    steps = summary["train_steps"] * (len(published) - 1) / len(published)
    return TrainingRun(summary=summary, steps_per_second=steps / (published[-1] - published[0]))
