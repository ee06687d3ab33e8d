"""A ledger without server, journal or real clock: spans in, sealed windows out, time as told."""

from collections.abc import Sequence

from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from exporter import otlp
from exporter.ledger import Ledger
from exporter.records import Reply
from exporter.sealing import next_seal
from exporter.state import Annex, Run, SealedWindow, State
from tests.wire import Emitter

GRACE_SECONDS = 15.0


class Harness:
    """Applies requests and seals what is due, as the ingest thread does."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.ledger = Ledger(State(), monotonic=self.now)

    def post(self, emitter: Emitter, *spans: Span) -> Reply:
        batch = otlp.decode("traces", emitter.request(*spans).SerializeToString())
        reply = self.ledger.apply(batch, wall=self.now, monotonic=self.now)
        self._seal_due()
        return reply

    def post_metrics(self, emitter: Emitter, *metrics: Metric) -> Reply:
        batch = otlp.decode("metrics", emitter.metrics_request(*metrics).SerializeToString())
        return self.ledger.apply(batch, wall=self.now, monotonic=self.now)

    def wait(self, seconds: float) -> None:
        """Let the exporter's clock run on."""
        self.now += seconds
        self._seal_due()

    def _seal_due(self) -> None:
        self.ledger.arrivals.now = self.now
        for run in self.ledger.state.runs.values():
            while seal := next_seal(run, self.ledger.arrivals, grace=GRACE_SECONDS, wall=self.now):
                self.ledger.seal(seal, monotonic=self.now)

    @property
    def run(self) -> Run:
        return self.ledger.state.runs["r"]

    @property
    def sealed(self) -> dict[int, SealedWindow]:
        """The sealed windows by version; of a version that two attempts have, the newer."""
        return {item.version: item for item in self.ledger.outbox if isinstance(item, SealedWindow)}

    @property
    def annexes(self) -> list[Annex]:
        return [item for item in self.ledger.outbox if isinstance(item, Annex)]

    def count(self, family: str, *labels: str) -> float:
        return self.run.counters[f"asyncrl_{family}"][labels].value


def losses(emitter: Emitter, version: int, numbers: Sequence[int]) -> list[Span]:
    """Train steps whose loss is their number."""
    return [
        emitter.train_step(version, number, place, values={"policy_loss": float(number)}, sample_count=8)
        for place, number in enumerate(numbers, 1)
    ]
