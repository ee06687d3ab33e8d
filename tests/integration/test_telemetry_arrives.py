"""C52, C55 and C56 at the exporter: what the runtime's telemetry said is on the page, whoever ended or came late, and
in the trace store behind it."""

import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from runtime.telemetry import schema
from runtime.telemetry.config import Identity, TelemetryConfig
from runtime.telemetry.emitter import Telemetry
from tests.exporter.conftest import StartExporter
from tests.otlp_sink import OtlpSink
from tests.wire import WATCHDOG_SECONDS, Scrape

ROOT = Path(__file__).parents[2]
STEPS = 10
SILENT_SECONDS = 3600.0
"""A flush interval that never passes: what arrives was sent because the process ended."""

TERMINATED = f"""
import os, signal, sys, time
from tests.integration.test_telemetry_arrives import emit_steps, telemetry_to
telemetry = telemetry_to(sys.argv[1], flush_interval_seconds={SILENT_SECONDS})
telemetry.observe_sum({schema.SUM_FED!r}, lambda: [({STEPS}, {{}})])
emit_steps(telemetry)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
"""


def telemetry_to(
    url: str,
    *,
    role: str = schema.TRAINER,
    flush_interval_seconds: float = 0.05,
    detail_sampling: float = 0.0,
) -> Telemetry:
    config = TelemetryConfig(
        endpoints=(url,), flush_interval_seconds=flush_interval_seconds, detail_sampling=detail_sampling
    )
    return Telemetry(config, Identity(run_id="run-1", role=role))


def emit_steps(telemetry: Telemetry, count: int = STEPS, *, links: Sequence[str] = ()) -> None:
    """The steps of a version whose sync is still to come."""
    for step in range(1, count + 1):
        now_ns = telemetry.clock.now_ns()
        telemetry.control(
            schema.TRAIN_STEP,
            param_version=1,
            start_ns=now_ns,
            end_ns=now_ns,
            attributes={schema.STEP: step, schema.STEP_IN_WINDOW: step, schema.SAMPLE_COUNT: 1},
            links=links,
        )


def test_c52_a_terminated_process_leaves_its_spans_and_last_sums_on_the_page(
    start_exporter: StartExporter,
) -> None:
    exporter = start_exporter()
    process = subprocess.run(
        [sys.executable, "-c", TERMINATED, exporter.otlp],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=WATCHDOG_SECONDS,
        check=False,
    )
    assert (process.returncode, process.stderr) == (0, "")
    page = Scrape(exporter.metrics)
    assert page.value("asyncrl_train_steps_total", run="run-1") == STEPS
    assert page.value("asyncrl_samples_fed_total", run="run-1") == STEPS


def test_c55_an_exporter_that_comes_up_late_has_every_step(start_exporter: StartExporter) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    telemetry = telemetry_to(f"http://127.0.0.1:{port}")
    emit_steps(telemetry)  # returns although nobody listens
    assert not telemetry.flush(0.2)
    exporter = start_exporter("--otlp", f"127.0.0.1:{port}")
    assert telemetry.flush(WATCHDOG_SECONDS)
    assert Scrape(exporter.metrics).value("asyncrl_train_steps_total", run="run-1") == STEPS
    assert telemetry.stats().dropped["control"] == 0
    telemetry.shutdown(WATCHDOG_SECONDS)


def test_c56_a_trace_store_behind_the_exporter_has_the_links_of_a_step_to_its_producers(
    start_exporter: StartExporter,
) -> None:
    with OtlpSink() as store:
        exporter = start_exporter("--forward-spans", store.url)
        rollouter = telemetry_to(exporter.otlp, role=schema.ROLLOUTER_ROLE, detail_sampling=1.0)
        trainer = telemetry_to(exporter.otlp)
        queue = [
            rollouter.detail(schema.ROLLOUT, start_ns=1, end_ns=9, attributes={schema.SAMPLE_ID: sample})
            for sample in range(3)
        ]
        emit_steps(trainer, 1, links=queue)
        for telemetry in (rollouter, trainer):
            assert telemetry.flush(WATCHDOG_SECONDS)
        store.wait_for(lambda: len(store.spans) == 4)
        rollouter.shutdown(WATCHDOG_SECONDS)
        trainer.shutdown(WATCHDOG_SECONDS)
        rollouts = {span.attributes[schema.SAMPLE_ID]: span.message for span in store.named(schema.ROLLOUT)}
        (step,) = store.named(schema.TRAIN_STEP)
    links = [(link.trace_id, link.span_id) for link in step.message.links]
    assert links == [(rollouts[sample].trace_id, rollouts[sample].span_id) for sample in range(3)]
    assert len({trace_id for trace_id, _ in links} | {step.message.trace_id}) == 4
    assert step.message.parent_span_id == b""
    assert Scrape(exporter.metrics).value("asyncrl_train_steps_total", run="run-1") == 1
