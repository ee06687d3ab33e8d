"""The example of docs/wire.md, pasted into a file by a reader, yields what the page says it does."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import requests

from tests.exporter.conftest import StartedExporter, StartExporter
from tests.wire import WATCHDOG_SECONDS, Scrape

WIRE = Path(__file__).parents[2] / "docs" / "wire.md"
LOSSES = {1: 2.5, 2: 6.5, 3: 10.5}


def code_block(language: str) -> str:
    """The first block of that language on the page."""
    block = re.search(
        rf"^```{language}\n(.*?)^```$", WIRE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    assert block is not None
    return block[1]


def run_example(folder: Path, otlp: str, **variables: str) -> None:
    example = folder / "example.py"
    example.write_text(code_block("python"), encoding="utf-8")
    environment = os.environ | variables | {"OTEL_EXPORTER_OTLP_ENDPOINT": otlp}
    done = subprocess.run(
        [sys.executable, "-P", example],
        env=environment,
        capture_output=True,
        text=True,
        timeout=WATCHDOG_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def sealed_losses(exporter: StartedExporter, *, attempt: int = 1) -> dict[int, float]:
    """The loss of each version of an attempt in history, once all three are there."""
    deadline = time.monotonic() + WATCHDOG_SECONDS
    while True:
        history = requests.get(
            f"{exporter.metrics}/api/v1/runs/wire-example/versions", timeout=WATCHDOG_SECONDS
        ).json()
        versions = [entry for entry in history.get("versions", []) if entry["attempt"] == attempt]
        if len(versions) == len(LOSSES):
            assert all(entry["complete"] for entry in versions), versions
            return {entry["param_version"]: entry["metrics"]["policy_loss"] for entry in versions}
        assert time.monotonic() < deadline, history
        time.sleep(0.05)


def test_the_example_yields_the_three_versions_that_the_page_shows(
    start_exporter: StartExporter, tmp_path: Path
) -> None:
    exporter = start_exporter()
    run_example(tmp_path, exporter.otlp)
    assert sealed_losses(exporter) == LOSSES

    command, *shown = code_block("console").splitlines()
    pattern = re.search(r"grep -E '(.*)'", command)
    assert pattern is not None
    page = requests.get(f"{exporter.metrics}/metrics", timeout=WATCHDOG_SECONDS).text
    assert [line for line in page.splitlines() if re.search(pattern[1], line)] == shown


def test_the_example_run_again_is_the_next_attempt_and_as_complete(
    start_exporter: StartExporter, tmp_path: Path
) -> None:
    exporter = start_exporter()
    run_example(tmp_path, exporter.otlp)
    assert sealed_losses(exporter) == LOSSES
    run_example(tmp_path, exporter.otlp)
    assert sealed_losses(exporter, attempt=2) == LOSSES
    page = Scrape(exporter.metrics)
    assert page.value("asyncrl_attempts_inferred_total", run="wire-example") == 1
    assert page.value("asyncrl_late_records_total", run="wire-example", reason="attempt_over") == 0
