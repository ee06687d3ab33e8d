"""Whatever is sent: the process lives, every answer is one of the contract, and the page parses."""

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exporter.config import ExporterConfig
from exporter.errors import ConfigError
from exporter.settings import SETTINGS, load_settings
from tests.exporter import hostile_requests
from tests.exporter.conftest import ROOT, StartedExporter, StartExporter
from tests.page import check_form
from tests.wire import Scrape, post_raw

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


@pytest.fixture(scope="module")
def target(start_module_exporter: StartExporter) -> StartedExporter:
    """One exporter for all examples: what one leaves behind, the next one meets."""
    return start_module_exporter(
        "--grace", "0.05", "--finished-run-grace", "0.5", "--max-body-bytes", "1000000"
    )


def check_example(target: StartedExporter, sent: Sequence[tuple[str, bytes]], accept: str) -> None:
    for signal, body in sent:
        answer = post_raw(target.otlp, body, signal=signal)
        assert answer.status in (200, 400), answer
        assert "internal error" not in answer.reason
    page = Scrape(target.metrics, accept=accept)
    check_form(page.text, page.content_type)
    assert page.value("asyncrl_exporter_render_errors_total") == 0
    assert target.process.poll() is None


examples = st.lists(hostile_requests.requests, max_size=4) | st.lists(hostile_requests.damaged, max_size=4)
forms = st.sampled_from(["", OPENMETRICS])
patient = settings(suppress_health_check=list(HealthCheck))


@settings(patient, max_examples=25)
@given(sent=examples, accept=forms)
def test_any_request_leaves_a_page_that_parses(
    target: StartedExporter, sent: list[tuple[str, bytes]], accept: str
) -> None:
    check_example(target, sent, accept)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@settings(patient, max_examples=500)
@given(sent=examples, accept=forms)
def test_any_of_very_many_requests_leaves_a_page_that_parses(
    target: StartedExporter, sent: list[tuple[str, bytes]], accept: str
) -> None:
    check_example(target, sent, accept)


plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)


@given(settings=st.dictionaries(st.sampled_from(sorted(SETTINGS)), plain, max_size=4))
def test_any_flags_are_a_config_or_one_line(settings: dict[str, Any]) -> None:
    said = ""
    try:
        assert isinstance(load_settings(None, {}, settings).config, ExporterConfig)
    except ConfigError as error:
        said = str(error)
    assert "\n" not in said


@given(
    variables=st.dictionaries(
        st.sampled_from(sorted(SETTINGS)).map(lambda name: f"ASYNCRL_{name.upper()}"), st.text(max_size=20)
    )
)
def test_any_variables_are_a_config_or_one_line(variables: dict[str, str]) -> None:
    said = ""
    try:
        load_settings(None, variables, {})
    except ConfigError as error:
        said = str(error)
    assert "\n" not in said


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_coverage_guided_fuzzing_of_decoder_and_ledger_finds_nothing(tmp_path: Path) -> None:
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("atheris is not installed (pip install atheris)")
    done = subprocess.run(
        [sys.executable, "-m", "tests.exporter.coverage_fuzz", "-max_total_time=120", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
