"""A defect in a decision costs no sender its answer and no restart its journal."""

import asyncio
from contextlib import closing
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from exporter import otlp
from exporter.config import ExporterConfig
from exporter.ingest import Ingest
from exporter.ledger import Ledger
from exporter.records import Reply
from exporter.sealing import Seal
from tests.wire import Emitter


def submit(ingest: Ingest, emitter: Emitter, *spans: Span) -> Reply:
    body = emitter.request(*spans).SerializeToString()
    return asyncio.run(ingest.submit("traces", body, otlp.decode("traces", body)))


def test_a_decision_that_fails_costs_its_run_alone_and_is_not_journalled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config, trainer, other = ExporterConfig(data_dir=tmp_path), Emitter(""), Emitter("", run="other")
    failing = True
    carry_out = Ledger.seal

    def seal(ledger: Ledger, decision: Seal, *, monotonic: float) -> None:
        if failing and decision.run == "r":
            raise ZeroDivisionError("a defect")
        carry_out(ledger, decision, monotonic=monotonic)

    monkeypatch.setattr(Ledger, "seal", seal)
    with closing(Ingest.open(config)) as ingest:
        for version in (1, 2):
            for emitter in (trainer, other):
                said = submit(ingest, emitter, *emitter.window(version, [{"policy_loss": 1.0}]))
                assert said.rejected == 0
        assert (ingest.snapshot.runs["r"].sealed, ingest.snapshot.runs["other"].sealed) == (0, 2)
        assert ingest.ready
        assert caplog.text.count("run cannot be looked after") == 1
        failing = False
        assert submit(ingest, trainer, *trainer.window(3, [{"policy_loss": 2.0}])).rejected == 0
    with closing(Ingest.open(config)) as again:
        assert [window.version for window in again.snapshot.runs["r"].window] == [1, 2, 3]
