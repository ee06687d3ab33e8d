"""Spans forwarded by a started exporter to another OTLP receiver."""

import gzip
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from exporter.forward import SpanForwarder
from exporter.upstream import UpstreamConfig
from tests.exporter.conftest import StartExporter
from tests.otlp_sink import OtlpSink, Reply
from tests.wire import WATCHDOG_SECONDS, Emitter, Scrape, post_raw, scrape_until


class Recorder(OtlpSink):
    """An OtlpSink that keeps the bodies that it took."""

    def __init__(self, port: int = 0) -> None:
        super().__init__(port)
        self.bodies: list[bytes] = []
        self.statuses: list[int] = []
        """Answers to the next requests; then 200."""
        self.reply = self._answer

    def _answer(self, path: str, body: bytes) -> Reply:
        status = self.statuses.pop(0) if self.statuses else 200
        if status == 200:
            self.bodies.append(body)
        return Reply(status=status, headers={"Retry-After": "0"})


@pytest.fixture
def sink() -> Iterator[Recorder]:
    with Recorder() as recorder:
        yield recorder


def requests_of(trainer: Emitter, count: int) -> list[bytes]:
    """Requests of a control span and a detail span, with a field that this version of OTLP does not know."""
    unknown_field = bytes((0xFA, 0x3F, 3)) + b"new"  # number 1023, of a later version
    return [
        trainer.request(
            trainer.train_step(1, step), trainer.span("rollout", 1, {"asyncrl.tokens": 7}, numbered=False)
        ).SerializeToString()
        + unknown_field
        for step in range(1, count + 1)
    ]


def test_requests_are_forwarded_byte_for_byte_in_order(start_exporter: StartExporter, sink: Recorder) -> None:
    exporter = start_exporter("--forward-spans", sink.url)
    bodies = requests_of(Emitter(exporter.otlp), 5)
    for body in bodies[:4]:
        assert post_raw(exporter.otlp, body).status == 200
    assert post_raw(exporter.otlp, gzip.compress(bodies[4]), encoding="gzip").status == 200
    sink.wait_for(lambda: len(sink.bodies) == 5)
    assert sink.bodies == bodies
    assert {path for path, _ in sink.requests} == {"/v1/traces"}


def test_an_outage_of_the_trace_store_loses_and_repeats_nothing_that_fits_the_buffer(
    start_exporter: StartExporter, sink: Recorder
) -> None:
    sink.statuses = [503, 429, 401, 500]
    exporter = start_exporter("--forward-spans", sink.url)
    bodies = requests_of(Emitter(exporter.otlp), 20)
    for body in bodies:
        assert post_raw(exporter.otlp, body).status == 200
    sink.wait_for(lambda: len(sink.bodies) == 20)
    assert sink.bodies == bodies
    page = scrape_until(
        exporter.metrics,
        lambda page: page.value("asyncrl_exporter_forward_requests_total", outcome="delivered") == 20,
    )
    assert page.value("asyncrl_exporter_forward_buffered_bytes") == 0


def test_what_the_trace_store_refuses_for_good_holds_up_nothing(
    start_exporter: StartExporter, sink: Recorder
) -> None:
    sink.statuses = [400]
    exporter = start_exporter("--forward-spans", sink.url)
    bodies = requests_of(Emitter(exporter.otlp), 2)
    for body in bodies:
        post_raw(exporter.otlp, body)
    sink.wait_for(lambda: len(sink.bodies) == 1)
    assert sink.bodies == bodies[1:]
    page = Scrape(exporter.metrics)
    assert page.value("asyncrl_exporter_forward_requests_total", outcome="refused") == 1


def test_a_full_buffer_drops_the_oldest_and_counts_them(sink: Recorder) -> None:
    sink.hang()
    forwarder = SpanForwarder(UpstreamConfig(url=f"{sink.url}/v1/traces"), buffer_bytes=100)
    bodies = [bytes((0xFA, 0x3F, 30)) + bytes([number]) * 30 for number in range(10)]
    for body in bodies:
        forwarder.offer(body)
    sink.answer()
    sink.wait_for(lambda: bodies[-1] in sink.bodies)
    forwarder.close()
    assert sink.bodies[-3:] == bodies[-3:]
    said = {
        sample.labels["outcome"]: sample.value
        for family in forwarder.families()
        for sample in family.samples
        if "outcome" in sample.labels
    }
    assert said["dropped"] == 7
    assert said["delivered"] + said["dropped"] == 10


def test_oteltap_gets_every_span_of_two_runs_once_over_an_outage(
    start_exporter: StartExporter, tmp_path: Path
) -> None:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    exporter = start_exporter("--forward-spans", f"http://127.0.0.1:{port}")  # where nobody listens yet
    trainers = [Emitter(exporter.otlp, run=run, source=run) for run in ("one", "two")]
    sent = []
    for version in range(1, 6):
        for trainer in trainers:
            window = trainer.window(version, [{"policy_loss": version + 0.5}])
            sent += [(span.trace_id.hex(), span.span_id.hex(), span.name) for span in window]
            assert trainer.post(*window).rejected == 0
    with run_oteltap(tmp_path, port) as received:
        deadline = time.monotonic() + WATCHDOG_SECONDS
        while len(received()) < len(sent):
            assert time.monotonic() < deadline, received()
            time.sleep(0.05)
        spans = received()
    assert [(span["traceId"], span["spanId"], span["name"]) for span in spans] == sent
    losses = [
        attribute["value"]["doubleValue"]
        for span in spans
        for attribute in span["attributes"]
        if attribute["key"] == "asyncrl.metric.policy_loss"
    ]
    assert losses == [version + 0.5 for version in range(1, 6) for _ in trainers]


@contextmanager
def run_oteltap(directory: Path, port: int) -> Iterator[Any]:
    """The OTLP receiver of PyPI's `oteltap`: gives a function that reads the spans that it has printed."""
    program = Path(sys.executable).with_name("oteltap")
    if not program.exists():
        reason = "oteltap is not installed (it has binaries for x86-64 only)"
        if os.environ.get("ASYNCRL_REQUIRE_ALL"):
            pytest.fail(reason)
        pytest.skip(reason)
    log = directory / "oteltap.ndjson"
    with log.open("w") as log_file:
        process = subprocess.Popen([program, "--port", str(port)], stdout=log_file, env={})
    try:
        yield lambda: [
            json.loads(line)
            for line in log.read_text().splitlines(keepends=True)
            if line[0] == "{" and line[-1] == "\n"
        ]
    finally:
        process.terminate()
        process.wait(WATCHDOG_SECONDS)
