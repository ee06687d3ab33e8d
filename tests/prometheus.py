"""The real Prometheus beside a test: scrapes given targets, keeps its data with the test, answers PromQL."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
import yaml

WATCHDOG_SECONDS = 60


def require_binary(name: str, packages: str = "prometheus prometheus-alertmanager") -> str:
    """Its path. Where it is not installed the test is skipped, or fails in CI, which installs all."""
    path = shutil.which(name)
    if path is None:
        reason = f"{name} is not installed (apt-get install {packages})"
        if os.environ.get("ASYNCRL_REQUIRE_ALL"):
            pytest.fail(reason)
        pytest.skip(reason)
    return path


def check_metrics(page: str) -> str:
    """What `promtool check metrics` complains of in a text exposition; empty if it is clean."""
    promtool = require_binary("promtool")
    check = subprocess.run(
        [promtool, "check", "metrics"],
        input=page,
        capture_output=True,
        text=True,
        timeout=WATCHDOG_SECONDS,
        check=False,
    )
    return check.stdout + check.stderr


class Prometheus:
    """A running Prometheus at `url`."""

    def __init__(self, url: str) -> None:
        self.url = url

    def query(self, promql: str) -> list[dict[str, Any]]:
        """The series of an instant query: `metric` and `value`, or `values` for a range like `x[1h]`."""
        answer = requests.get(
            f"{self.url}/api/v1/query", params={"query": promql}, timeout=WATCHDOG_SECONDS
        ).json()
        assert answer["status"] == "success", answer
        result: list[dict[str, Any]] = answer["data"]["result"]
        return result

    def wait_for(self, promql: str, seconds: float = WATCHDOG_SECONDS) -> list[dict[str, Any]]:
        """The first result of the query that has a series in it."""
        deadline = time.monotonic() + seconds
        while not (result := self.query(promql)):
            assert time.monotonic() < deadline, f"no series for {promql}; targets: {self.targets()}"
            time.sleep(0.1)
        return result

    def rules(self) -> list[dict[str, Any]]:
        """Every rule that it evaluates, with `health` and `lastError`."""
        answer = requests.get(f"{self.url}/api/v1/rules", timeout=WATCHDOG_SECONDS).json()
        return [rule for group in answer["data"]["groups"] for rule in group["rules"]]

    def targets(self) -> list[dict[str, Any]]:
        """The scrape targets with `health` and `lastError`."""
        answer = requests.get(f"{self.url}/api/v1/targets", timeout=WATCHDOG_SECONDS).json()
        active: list[dict[str, Any]] = answer["data"]["activeTargets"]
        return active


@dataclass(frozen=True, kw_only=True, slots=True)
class Alerting:
    """Rules to evaluate at each scrape interval, and the Alertmanager that is told what they find."""

    rules: Path
    alertmanager: str
    """Its URL."""
    lookback_seconds: float
    """For how long a query takes the last value of a series that has ended: 5 min where time runs as usual."""


@contextmanager
def run_prometheus(
    directory: Path,
    targets: Sequence[str],
    *,
    interval_seconds: float,
    alerting: Alerting | None = None,
    **job_options: Any,
) -> Iterator[Prometheus]:
    """Scrapes the /metrics of each target (a URL such as http://127.0.0.1:9810) until the block ends.
    `job_options`: more of a scrape config, such as `basic_auth`."""
    binary = require_binary("prometheus")
    config = directory / "prometheus.yml"
    interval = f"{round(interval_seconds * 1000)}ms"
    job = {"job_name": "asyncrl", "static_configs": [{"targets": [urlsplit(url).netloc for url in targets]}]}
    job |= job_options
    times = {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval}
    document: dict[str, Any] = {"global": times, "scrape_configs": [job]}
    flags = []
    if alerting is not None:
        document["rule_files"] = [str(alerting.rules)]
        receiver = {"static_configs": [{"targets": [urlsplit(alerting.alertmanager).netloc]}]}
        document["alerting"] = {"alertmanagers": [receiver]}
        lookback = f"--query.lookback-delta={round(alerting.lookback_seconds * 1000)}ms"
        # It finds the Alertmanager only after the first evaluations: what they found is said again soon.
        flags = [lookback, "--rules.alert.resend-delay=5s"]
    config.write_text(yaml.safe_dump(document))
    log = directory / "prometheus.log"
    with log.open("w") as log_file:
        process = subprocess.Popen(
            [
                binary,
                f"--config.file={config}",
                f"--storage.tsdb.path={directory / 'tsdb'}",
                "--web.listen-address=127.0.0.1:0",
                "--enable-feature=exemplar-storage",
                *flags,
            ],
            stdout=log_file,
            stderr=subprocess.STDOUT,
        )
    try:
        yield Prometheus(wait_until_ready(process, log))
    finally:
        process.terminate()
        try:
            process.wait(timeout=WATCHDOG_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until_ready(process: subprocess.Popen[bytes], log: Path) -> str:
    """The URL of a Prometheus or Alertmanager that has chosen its port and answers queries."""
    deadline = time.monotonic() + WATCHDOG_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        listening = re.search(r'"Listening on" address=(127\.0\.0\.1:\d+)', log.read_text())
        if listening is not None:
            url = f"http://{listening[1]}"
            if requests.get(f"{url}/-/ready", timeout=WATCHDOG_SECONDS).ok:
                return url
        time.sleep(0.05)
    pytest.fail(f"{log.stem} did not become ready:\n{log.read_text()}")
