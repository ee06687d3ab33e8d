from collections.abc import Iterator
from typing import Any, Protocol

import pytest

from runtime.telemetry.config import Identity, TelemetryConfig
from runtime.telemetry.emitter import Telemetry
from tests.otlp_sink import OtlpSink


class MakeTelemetry(Protocol):
    """Builds a Telemetry that is shut down with the test; keywords as of TelemetryConfig."""

    def __call__(self, *endpoints: str, **config: Any) -> Telemetry: ...


@pytest.fixture
def sink() -> Iterator[OtlpSink]:
    with OtlpSink() as sink:
        yield sink


@pytest.fixture
def make_telemetry() -> Iterator[MakeTelemetry]:
    made: list[Telemetry] = []

    def make(*endpoints: str, **config: Any) -> Telemetry:
        quick = {"flush_interval_seconds": 0.01, "detail_sampling": 1.0} | config
        identity = Identity(run_id="run-1", role="trainer", model_name="tiny", steps_per_version=4)
        made.append(Telemetry(TelemetryConfig(endpoints=endpoints, **quick), identity))
        return made[-1]

    yield make
    for telemetry in made:
        telemetry.shutdown(0.0)
