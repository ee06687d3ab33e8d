"""A started exporter: the real process, on free ports, with a data folder of its own."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from tests.wire import WATCHDOG_SECONDS

ROOT = Path(__file__).parents[2]


@dataclass
class StartedExporter:
    """A running exporter. `metrics` and `otlp` are its base URLs."""

    process: subprocess.Popen[str]
    data_dir: Path
    metrics: str
    otlp: str

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Its exit code and what it wrote to stderr."""
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=WATCHDOG_SECONDS)
        return self.process.returncode, said


StartExporter = Callable[..., StartedExporter]


def exporters(directory: Path) -> Iterator[StartExporter]:
    """One `start(*flags, data_dir=..., ca_file=...) -> StartedExporter` that is ready; those it started end after it.
    `ca_file`: the authority of a scrape listener with TLS; `environment`: variables of the process."""
    started: list[subprocess.Popen[str]] = []

    def start(
        *flags: str,
        data_dir: Path | None = None,
        ca_file: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> StartedExporter:
        data = data_dir or directory / f"data{len(started)}"
        endpoints = directory / f"endpoints{len(started)}.json"
        command = [sys.executable, "-P", "-m", "exporter", "--listen", "127.0.0.1:0", "--otlp", "127.0.0.1:0"]
        places = ["--data-dir", str(data), "--endpoints-file", str(endpoints)]
        process = subprocess.Popen(
            [*command, *places, *flags],
            env={"PYTHONPATH": str(ROOT), "PYTHONDEVMODE": "1", **(environment or {})},
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        urls = _await_ready(process, endpoints, ca_file)
        return StartedExporter(process=process, data_dir=data, metrics=urls["metrics"], otlp=urls["otlp"])

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def start_exporter(tmp_path: Path) -> Iterator[StartExporter]:
    """Starts exporters that live as long as the test."""
    yield from exporters(tmp_path)


@pytest.fixture(scope="module")
def start_module_exporter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartExporter]:
    """Starts exporters that live as long as the tests of one file."""
    yield from exporters(tmp_path_factory.mktemp("exporters"))


def _await_ready(process: subprocess.Popen[str], endpoints: Path, ca_file: Path | None) -> dict[str, str]:
    deadline = time.monotonic() + WATCHDOG_SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[1]
        if endpoints.exists():
            urls: dict[str, str] = json.loads(endpoints.read_text(encoding="utf-8"))
            verify = str(ca_file) if ca_file else True
            if requests.get(f"{urls['metrics']}/readyz", verify=verify, timeout=WATCHDOG_SECONDS).ok:
                return urls
        time.sleep(0.02)
    raise AssertionError("the exporter did not become ready")


@pytest.fixture
def exporter(start_exporter: StartExporter) -> StartedExporter:
    """One exporter with a short grace."""
    return start_exporter("--grace", "1")
