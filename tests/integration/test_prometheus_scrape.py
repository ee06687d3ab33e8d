"""A real Prometheus scrapes runs whose versions finish several times between two scrapes."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import requests

from tests.exporter.conftest import ROOT, StartExporter
from tests.page import check_page
from tests.prometheus import Prometheus, check_metrics, run_prometheus
from tests.wire import WATCHDOG_SECONDS, Emitter, Scrape

VERSIONS = 125
VERSION_SECONDS = 0.08
SCRAPE_SECONDS = 0.5


def kept_versions(prometheus: Prometheus, family: str) -> dict[int, float]:
    """What Prometheus has of a version-window family: version -> value."""
    series = prometheus.query(f"last_over_time({family}[10m])")
    return {int(each["metric"]["param_version"]): float(each["value"][1]) for each in series}


def seen_latest(prometheus: Prometheus, family: str) -> int:
    """How many distinct values Prometheus has of a latest gauge."""
    (series,) = prometheus.query(f"{family}[10m]")
    return len({value for _, value in series["values"]})


def test_every_version_arrives_although_several_finish_between_two_scrapes(
    start_exporter: StartExporter, tmp_path: Path
) -> None:
    exporter = start_exporter()
    with run_prometheus(tmp_path, [exporter.metrics], interval_seconds=SCRAPE_SECONDS) as prometheus:
        trainer = Emitter(exporter.otlp)
        trainer.post(trainer.weight_sync(0, 0))
        prometheus.wait_for("asyncrl_param_version")
        for version in range(1, VERSIONS + 1):
            trainer.post(
                *trainer.window(version, [{"policy_loss": version + 0.125 * part} for part in range(4)])
            )
            time.sleep(VERSION_SECONDS)
        page = Scrape(exporter.metrics)
        prometheus.wait_for(f'asyncrl_version_complete{{param_version="{VERSIONS}"}}')
        kept = kept_versions(prometheus, "asyncrl_version_policy_loss")
        seen = seen_latest(prometheus, "asyncrl_policy_loss")
    assert kept == {version: version + 0.1875 for version in range(1, VERSIONS + 1)}
    assert seen < VERSIONS / 2, "the versions must outrun the scrapes, or this test shows nothing"
    assert check_metrics(page.text) == ""
    check_page(page.text, page.content_type)


@pytest.mark.peer
def test_every_version_of_a_real_run_arrives_with_the_value_of_its_history(
    start_exporter: StartExporter, tmp_path: Path
) -> None:
    exporter = start_exporter()
    settings = {
        "versions": 12,
        "steps_per_version": 1,
        "required_samples": 4,
        "group_size": 4,
        "engine.capacity_responses": 32,
        "telemetry.endpoints": json.dumps([exporter.otlp]),
        "runs_dir": tmp_path / "runs",
    }
    with run_prometheus(tmp_path, [exporter.metrics], interval_seconds=3.0) as prometheus:
        flags = [f"--set={key}={value}" for key, value in settings.items()]
        run = subprocess.run(
            [sys.executable, "-P", str(ROOT / "asyncrl.py"), "run", *flags],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=4 * WATCHDOG_SECONDS,
            check=False,
        )
        assert run.returncode == 0, run.stderr[-4000:]
        prometheus.wait_for('asyncrl_version_complete{param_version="12"}')
        kept = kept_versions(prometheus, "asyncrl_version_reward_mean")
        complete = kept_versions(prometheus, "asyncrl_version_complete")
        seen = seen_latest(prometheus, "asyncrl_param_version")
    (run_dir,) = (tmp_path / "runs").iterdir()
    url = f"{exporter.metrics}/api/v1/runs/{run_dir.name}/versions"
    history = requests.get(url, timeout=WATCHDOG_SECONDS).json()["versions"]
    assert kept == {
        version["param_version"]: version["metrics"]["reward"]["mean"]
        for version in history
        if version["metrics"]
    }
    assert complete == dict.fromkeys(range(1, 13), 1.0)
    assert seen < 12, "the versions must outrun the scrapes, or this test shows nothing"
