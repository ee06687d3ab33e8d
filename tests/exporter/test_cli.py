"""`asyncrl exporter` as a process: what it prints, and what it says in its log."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.exporter.conftest import ROOT, StartExporter
from tests.wire import WATCHDOG_SECONDS


def run_exporter(*flags: str, variables: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "exporter", *flags],
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]} | (variables or {}),
        capture_output=True,
        text=True,
        timeout=WATCHDOG_SECONDS,
        check=False,
    )


def test_check_config_prints_every_setting_with_its_origin_and_starts_nothing(tmp_path: Path) -> None:
    done = run_exporter(
        *("--check-config", "--grace", "4", "--data-dir", str(tmp_path / "data")),
        variables={"ASYNCRL_OTLP": "127.0.0.1:5318"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    said = {" ".join(line.split()) for line in done.stdout.splitlines()}
    assert {
        "grace_seconds: 4.0 # flag",
        'otlp: "127.0.0.1:5318" # ASYNCRL_OTLP',
        'listen: "127.0.0.1:9810" # default',
    } <= said
    assert not (tmp_path / "data").exists()


def test_check_config_says_what_is_wrong_in_one_line() -> None:
    done = run_exporter("--check-config", variables={"ASYNCRL_GRACE_SECONDS": "soon"})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "asyncrl exporter: grace_seconds must be a finite number of 0 or more, got 'soon' "
        "(from ASYNCRL_GRACE_SECONDS)\n"
    )


def test_the_log_can_be_json_with_the_facts_as_fields(start_exporter: StartExporter) -> None:
    exporter = start_exporter("--log-format", "json")
    _, said = exporter.stop()
    events = {event["event"]: event for event in map(json.loads, said.splitlines())}
    assert events["listening"]["metrics"] == f"{exporter.metrics}/metrics"
    assert events["listening"]["level"] == "info"
    assert list(events)[-1] == "stopped"
