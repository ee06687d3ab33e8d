"""How long the caller is held up by one step of 60 values: a span here, a call per value elsewhere.

Medians of single steps, so that what a busy machine takes away in between does not count. Delivery is under way
meanwhile: to an exporter here, to the hub there; the OTel gauges are only set, their reader collects nothing.
"""

import statistics
import time
from collections.abc import Callable, Iterator

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from benchmarks.service.figure import Figure
from benchmarks.service.load import VALUES, step_values
from benchmarks.service.peer import RL_INSIGHT, measure_peer
from benchmarks.service.started import exporter
from runtime.telemetry import schema
from runtime.telemetry.config import Identity, TelemetryConfig
from runtime.telemetry.emitter import Telemetry


def measure(steps: int = 1000) -> Iterator[Figure]:
    """Ours against both."""
    ours = _microseconds_of_span(steps)
    otel = _microseconds_of_gauges(steps)
    hub = measure_peer(RL_INSIGHT, "insight", str(VALUES), "100")["seconds_per_step"] * 1e6
    for peer, microseconds, target in (
        (RL_INSIGHT.replace("==", " "), hub, 1 / 300),
        (f"{VALUES} OTel gauge sets", otel, 1 / 10),
    ):
        yield Figure(
            what=f"caller's time for a step of {VALUES} values",
            ours=f"{ours:.0f} us",
            peer=f"{peer}: {microseconds:,.0f} us",
            ratio=ours / microseconds,
            target=target,
            held_by="Alone, the SDK's span takes 17 us, the copy of the values 5 us; "
            "the rest goes to waking the thread that encodes, and to its share of the interpreter.",
        )


def _median_microseconds(emit: Callable[[int], None], steps: int) -> float:
    took = []
    for step in range(1, steps + 1):
        began = time.perf_counter()
        emit(step)
        took.append(time.perf_counter() - began)
    return statistics.median(took) * 1e6


def _microseconds_of_span(steps: int) -> float:
    values = [step_values(part) for part in range(97)]
    with exporter() as started:
        telemetry = Telemetry(
            TelemetryConfig(endpoints=(started.otlp,)), Identity(run_id="emit", role=schema.TRAINER)
        )

        def emit(step: int) -> None:
            now_ns = telemetry.clock.now_ns()
            telemetry.control(
                schema.TRAIN_STEP,
                param_version=step,
                start_ns=now_ns,
                end_ns=now_ns,
                attributes={schema.STEP: step, schema.STEP_IN_WINDOW: 1, schema.SAMPLE_COUNT: 32},
                values=values[step % 97],
            )

        microseconds = _median_microseconds(emit, steps)
        telemetry.shutdown(60.0)
        assert telemetry.stats().sent == steps
    return microseconds


def _microseconds_of_gauges(steps: int) -> float:
    provider = MeterProvider(metric_readers=[InMemoryMetricReader()])
    meter = provider.get_meter("emit")
    gauges = [meter.create_gauge(f"layer_{number}") for number in range(VALUES)]

    def emit(step: int) -> None:
        for gauge in gauges:
            gauge.set(step / 7)

    microseconds = _median_microseconds(emit, steps)
    provider.shutdown()
    return microseconds
