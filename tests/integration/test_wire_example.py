"""The example of docs/wire.md, pasted into a file by a reader, yields what the page says it does."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import requests

from tests.exporter.conftest import StartedExporter, StartExporter
from tests.prometheus import require_binary
from tests.web_config import Authority, token_digest, write_web_config
from tests.wire import WATCHDOG_SECONDS, Scrape, scrape_until

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


def test_the_example_shows_a_token_and_a_certificate_by_the_variables_of_the_page(
    start_exporter: StartExporter, tmp_path: Path
) -> None:
    authority = Authority.found(tmp_path)
    certificate, key = authority.issue("server")
    authority.issue("client", "client")
    stranger = Authority.found(tmp_path, "stranger").ca_file
    web_config = write_web_config(
        tmp_path / "senders.yml",
        tls_server_config={
            "cert_file": str(certificate),
            "key_file": str(key),
            "client_ca_file": "ca.crt",
            "client_auth_type": "RequireAndVerifyClientCert",
        },
        bearer_tokens={"trainers": token_digest("a-token")},
    )
    exporter = start_exporter("--otlp-web-config", str(web_config))
    variables = code_block("sh").replace("https://exporter.example:4318", exporter.otlp)
    (tmp_path / "example.py").write_text(code_block("python"), encoding="utf-8")
    done = subprocess.run(
        ["sh", "-euc", f"{variables}\nexec {sys.executable} -P example.py"],
        cwd=tmp_path,
        env=os.environ | {"TOKEN": "a-token", "REQUESTS_CA_BUNDLE": str(stranger)},
        capture_output=True,
        text=True,
        timeout=WATCHDOG_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert sealed_losses(exporter) == LOSSES


def test_a_step_and_a_version_can_be_said_with_curl(start_exporter: StartExporter) -> None:
    require_binary("curl", "curl")
    exporter = start_exporter()
    done = subprocess.run(
        ["bash", "-euc", code_block("bash").replace("http://127.0.0.1:4318", exporter.otlp)],
        capture_output=True,
        text=True,
        timeout=WATCHDOG_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "{}", "")
    page = scrape_until(
        exporter.metrics, lambda page: page.value("asyncrl_policy_loss", run="by-hand") == 0.5
    )
    assert page.value("asyncrl_versions_sealed_total", run="by-hand", complete="true") == 1


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
