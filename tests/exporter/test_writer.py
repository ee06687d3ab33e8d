"""A defect in a decision costs no sender its answer and no restart its journal."""

import asyncio
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from exporter import otlp
from exporter.config import ExporterConfig
from exporter.errors import JournalUnavailable
from exporter.ingest import Ingest
from exporter.ledger import Ledger
from exporter.records import Reply
from exporter.sealing import Seal
from tests.wire import Emitter


def submit(ingest: Ingest, emitter: Emitter, *spans: Span) -> Reply:
    body = emitter.request(*spans).SerializeToString()
    return asyncio.run(ingest.submit("traces", body, otlp.decode("traces", body)))


def test_a_decision_that_fails_is_answered_said_by_readiness_and_not_journalled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, trainer = ExporterConfig(data_dir=tmp_path), Emitter("")
    ingest = Ingest.open(config)
    failing = True
    carry_out = Ledger.seal

    def seal(ledger: Ledger, decision: Seal, *, monotonic: float) -> None:
        if failing:
            raise ZeroDivisionError("a defect")
        carry_out(ledger, decision, monotonic=monotonic)

    monkeypatch.setattr(Ledger, "seal", seal)
    with pytest.raises(JournalUnavailable):
        submit(ingest, trainer, *trainer.window(1, [{"policy_loss": 1.0}]))
    assert not ingest.ready
    failing = False
    assert submit(ingest, trainer, *trainer.window(2, [{"policy_loss": 2.0}])).rejected == 0
    ingest.close()
    again = Ingest.open(config)
    assert [window.version for window in again.snapshot.runs["r"].window] == [1, 2]
    again.close()
