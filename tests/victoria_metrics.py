"""The real VictoriaMetrics beside a test, a store that takes OTLP metrics and gives back every raw sample.

Debian's stable releases carry one without OTLP ingest; the one of sid is downloaded once and kept in .cache/.
"""

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

WATCHDOG_SECONDS = 60
_CACHE = Path(__file__).parents[1] / ".cache" / "victoria-metrics"
_DOWNLOAD_SECONDS = 240
_SOURCES = """\
Types: deb
URIs: http://deb.debian.org/debian
Suites: sid
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""

Series = dict[int, list[float]]
"""Unix milliseconds -> the raw samples there; more than one is a repetition."""


def require_victoria_metrics() -> str:
    """The path of the program. Where it cannot be had the test is skipped, or fails in CI, which must have it."""
    binary = _CACHE / "root" / "usr" / "bin" / "victoria-metrics"
    if not binary.exists():
        try:
            _download()
        except (OSError, subprocess.SubprocessError) as error:
            reason = f"VictoriaMetrics of Debian sid cannot be downloaded: {error}"
            if os.environ.get("ASYNCRL_REQUIRE_ALL"):
                pytest.fail(reason)
            pytest.skip(reason)
    return str(binary)


def _download() -> None:
    """With package lists of its own, so that the system's stay as they are."""
    for folder in ("sources", "lists/partial", "archives/partial"):
        (_CACHE / folder).mkdir(parents=True, exist_ok=True)
    (_CACHE / "sources" / "sid.sources").write_text(_SOURCES, encoding="utf-8")
    settings = {
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": f"{_CACHE / 'sources'}",
        "Dir::State::lists": f"{_CACHE / 'lists'}",
        "Dir::Cache": f"{_CACHE}",
        "APT::Sandbox::User": "",
    }
    apt_get = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in settings.items())]
    for package in _CACHE.glob("*.deb"):  # of a download that did not get to its end
        package.unlink()
    _run(*apt_get, "update")
    _run(*apt_get, "download", "victoria-metrics")
    (package,) = _CACHE.glob("victoria-metrics_*.deb")
    _run("dpkg-deb", "-x", str(package), "root.part")
    (_CACHE / "root.part").rename(_CACHE / "root")
    package.unlink()


def _run(*command: str) -> None:
    subprocess.run(command, cwd=_CACHE, check=True, capture_output=True, timeout=_DOWNLOAD_SECONDS)


class VictoriaMetrics:
    """A running one at `url`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.otlp = f"{url}/opentelemetry"
        """The base URL for OTLP."""

    def samples(self, selector: str) -> dict[tuple[tuple[str, str], ...], Series]:
        """All raw samples of the series that match, by their labels without the store's own."""
        requests.get(f"{self.url}/internal/force_flush", timeout=WATCHDOG_SECONDS).raise_for_status()
        # Without an end, what is later than now is left out, as the times of senders in tests may be.
        query = {"match[]": selector, "start": "0", "end": str(time.time() + 86_400)}
        answer = requests.get(f"{self.url}/api/v1/export", params=query, timeout=WATCHDOG_SECONDS)
        answer.raise_for_status()
        found: dict[tuple[tuple[str, str], ...], Series] = {}
        for line in answer.text.splitlines():
            block = json.loads(line)
            labels = {name: value for name, value in block["metric"].items() if name != "service.name"}
            series = found.setdefault(tuple(sorted(labels.items())), {})
            for at, value in zip(block["timestamps"], block["values"], strict=True):
                series.setdefault(at, []).append(value)
        return found


@contextmanager
def run_victoria_metrics(directory: Path, port: int = 0) -> Iterator[VictoriaMetrics]:
    """Keeps its data in `directory`, over restarts too, and runs until the block ends."""
    log = directory / "victoria-metrics.log"
    with log.open("w") as log_file:
        process = subprocess.Popen(
            [
                require_victoria_metrics(),
                f"-storageDataPath={directory / 'samples'}",
                f"-httpListenAddr=127.0.0.1:{port}",
                "-retentionPeriod=100y",
                "-memory.allowedBytes=128MiB",
            ],
            stdout=log_file,
            stderr=subprocess.STDOUT,
        )
    try:
        yield VictoriaMetrics(_wait_until_ready(process, log))
    finally:
        process.terminate()
        try:
            process.wait(timeout=WATCHDOG_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + WATCHDOG_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        started = re.search(r"started server at (http://127\.0\.0\.1:\d+)/", log.read_text())
        if started is not None and requests.get(f"{started[1]}/health", timeout=WATCHDOG_SECONDS).ok:
            return started[1]
        time.sleep(0.05)
    pytest.fail(f"VictoriaMetrics did not become ready:\n{log.read_text()}")
