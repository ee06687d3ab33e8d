"""C52: what a process has said when it ends arrives, however it ends. Real processes."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.telemetry import schema
from tests.otlp_sink import OtlpSink

ROOT = Path(__file__).parents[3]
WATCHDOG_SECONDS = 120.0

PREPARE = """
import os, signal, sys, threading, time
from runtime.telemetry import schema
from runtime.telemetry.config import Identity, TelemetryConfig
from runtime.telemetry.emitter import Telemetry

telemetry = Telemetry(
    TelemetryConfig(
        endpoints=(sys.argv[1],), flush_interval_seconds=3600.0, metrics_interval_seconds=3600.0,
        exit_timeout_seconds=float(sys.argv[2]),
    ),
    Identity(run_id="run-1", role="trainer"),
)
fed = 0
telemetry.observe_sum(schema.SUM_FED, lambda: [(fed, {})])

def emit(count):
    global fed
    for _ in range(count):
        fed += 1
        telemetry.control(schema.TRAIN_STEP, param_version=1, start_ns=1, end_ns=2, attributes={})

emit(10)
"""

ENDINGS = {
    "normal end": "",
    "sys.exit": "sys.exit(0)",
    "exception": "raise RuntimeError('crash')",
    "SIGTERM that exits": """
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
""",
    "SIGTERM that shuts down": """
def on_term(*_):
    telemetry.shutdown(60.0)
    os._exit(0)
signal.signal(signal.SIGTERM, on_term)
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
""",
}

FORK = """
child = os.fork()
if child == 0:
    emit(5)
    assert telemetry.detail(schema.ROLLOUT, start_ns=1, end_ns=2, attributes={}) == ""
    assert telemetry.flush(60.0)
    sys.exit(0)  # runs atexit in the child too
assert os.waitpid(child, 0)[1] == 0
emit(1)
"""


def start(code: str, sink: OtlpSink, exit_timeout_seconds: float) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PREPARE + code, sink.url, str(exit_timeout_seconds)],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )


def seqs(sink: OtlpSink) -> list[object]:
    return [span.attributes[schema.SEQ] for span in sink.spans]


@pytest.mark.parametrize("ending", ENDINGS)
def test_c52_every_orderly_end_sends_spans_and_last_metrics(ending: str, sink: OtlpSink) -> None:
    process = start(ENDINGS[ending], sink, exit_timeout_seconds=60.0)
    _, errors = process.communicate(timeout=WATCHDOG_SECONDS)
    assert process.returncode == (1 if ending == "exception" else 0), errors
    assert seqs(sink) == list(range(1, 11))
    assert [point.value for point in sink.points if point.name == schema.SUM_FED][-1] == 10


def test_c52_a_killed_process_loses_only_what_came_after_its_last_flush(sink: OtlpSink) -> None:
    process = start(
        "assert telemetry.flush(60.0)\nemit(3)\nos.kill(os.getpid(), signal.SIGKILL)",
        sink,
        exit_timeout_seconds=1.0,
    )
    process.communicate(timeout=WATCHDOG_SECONDS)
    assert process.returncode == -signal.SIGKILL
    assert seqs(sink)[:10] == list(range(1, 11))


def test_c52_an_end_while_the_endpoint_hangs_is_bounded(sink: OtlpSink) -> None:
    sink.hang()
    process = start("", sink, exit_timeout_seconds=0.5)
    _, errors = process.communicate(timeout=WATCHDOG_SECONDS)  # ends although nothing has been answered
    assert process.returncode == 0, errors
    assert "10 spans unsent" in errors
    assert sink.spans == []


def test_a_forked_child_is_not_this_source(sink: OtlpSink) -> None:
    process = start(FORK, sink, exit_timeout_seconds=60.0)
    _, errors = process.communicate(timeout=WATCHDOG_SECONDS)
    assert process.returncode == 0, errors
    assert seqs(sink) == list(range(1, 12))
