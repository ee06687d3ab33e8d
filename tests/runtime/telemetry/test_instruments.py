"""Gauges and sums as a receiver sees them."""

import math
import threading

import pytest

from runtime.telemetry import schema
from tests.otlp_sink import OtlpSink, PointSeen
from tests.runtime.telemetry.conftest import MakeTelemetry

WATCHDOG_SECONDS = 60.0
CUMULATIVE = 2


def points(sink: OtlpSink, name: str) -> list[PointSeen]:
    return [point for point in sink.points if point.name == name]


def test_gauges_and_sums_keep_their_kind_attributes_and_true_start(
    sink: OtlpSink, make_telemetry: MakeTelemetry
) -> None:
    telemetry = make_telemetry(sink.url, metrics_interval_seconds=0.05)
    born_ns = telemetry.clock.now_ns()
    count = [0.0]

    def fed() -> list[tuple[float, dict[str, str]]]:
        count[0] += 1
        return [(count[0], {schema.OUTCOME: "trained"})]

    telemetry.observe_sum(schema.SUM_SAMPLES, fed)
    telemetry.observe_gauge(schema.GAUGE_ROLLOUTER_DECODING, lambda: [(3, {schema.ROLLOUTER: "0"})])
    sink.wait_for(lambda: len(points(sink, schema.SUM_SAMPLES)) >= 3)
    sums = points(sink, schema.SUM_SAMPLES)
    assert [point.value for point in sums] == sorted({point.value for point in sums})
    assert {(point.kind, point.temporality, point.monotonic) for point in sums} == {("sum", CUMULATIVE, True)}
    assert all(point.attributes == {"asyncrl.outcome": "trained"} for point in sums)
    (start_ns,) = {point.start_ns for point in sums}
    assert start_ns <= born_ns < sums[0].time_ns < sums[-1].time_ns < telemetry.clock.now_ns()
    gauge = points(sink, schema.GAUGE_ROLLOUTER_DECODING)[0]
    assert (gauge.kind, gauge.value, gauge.attributes) == ("gauge", 3, {"asyncrl.rollouter": "0"})


def test_the_account_is_read_once_per_collection_and_travels_in_one_request(
    sink: OtlpSink, make_telemetry: MakeTelemetry
) -> None:
    telemetry = make_telemetry(sink.url, metrics_interval_seconds=0.02)
    reads = [0]

    def read() -> dict[str, list[tuple[float, dict[str, str]]]]:
        reads[0] += 1  # an account in motion: any two reads differ
        outcomes = [
            (float(reads[0]), {schema.OUTCOME: "trained"}),
            (2.0 * reads[0], {schema.OUTCOME: "failed"}),
        ]
        return {
            schema.SUM_FED: [(3.0 * reads[0] + 5.0, {})],
            schema.SUM_SAMPLES: outcomes,
            schema.GAUGE_IN_FLIGHT: [(4.0, {})],
            schema.GAUGE_QUEUED: [(1.0, {})],
        }

    telemetry.observe_account(
        read, sums=(schema.SUM_FED, schema.SUM_SAMPLES), gauges=(schema.GAUGE_IN_FLIGHT, schema.GAUGE_QUEUED)
    )
    sink.wait_for(lambda: len(points(sink, schema.SUM_FED)) >= 5)
    for fed in points(sink, schema.SUM_FED):
        same = [point for point in sink.points if point.request == fed.request]
        rest = (schema.SUM_SAMPLES, schema.GAUGE_IN_FLIGHT, schema.GAUGE_QUEUED)
        assert fed.value == sum(point.value for point in same if point.name in rest)
        assert len({point.time_ns for point in same}) == 1


def test_drops_are_reported_from_zero_by_kind(sink: OtlpSink, make_telemetry: MakeTelemetry) -> None:
    telemetry = make_telemetry(sink.url)
    assert telemetry.flush(WATCHDOG_SECONDS)
    dropped = {
        point.attributes["asyncrl.kind"]: point.value for point in points(sink, schema.SUM_TELEMETRY_DROPPED)
    }
    assert dropped == {"control": 0, "detail": 0}


def test_callbacks_run_on_the_metrics_thread_even_in_a_flush(
    sink: OtlpSink, make_telemetry: MakeTelemetry
) -> None:
    telemetry = make_telemetry(sink.url)
    names = []

    def read() -> list[tuple[float, dict[str, str]]]:
        names.append(threading.current_thread().name)
        return [(1.0, {})]

    telemetry.observe_gauge(schema.GAUGE_QUEUED, read)
    assert telemetry.flush(WATCHDOG_SECONDS)
    assert set(names) == {"telemetry metrics"}


def test_a_callback_that_hangs_does_not_hang_the_flush(sink: OtlpSink, make_telemetry: MakeTelemetry) -> None:
    telemetry = make_telemetry(sink.url)
    released = threading.Event()

    def read() -> list[tuple[float, dict[str, str]]]:
        released.wait(WATCHDOG_SECONDS)
        return []

    telemetry.observe_gauge(schema.GAUGE_QUEUED, read)
    assert not telemetry.flush(0.1)  # returns while the callback waits
    released.set()


def test_a_callback_that_fails_costs_its_own_points_and_one_log_line(
    sink: OtlpSink, make_telemetry: MakeTelemetry, caplog: pytest.LogCaptureFixture
) -> None:
    telemetry = make_telemetry(sink.url, metrics_interval_seconds=0.02)

    def read() -> list[tuple[float, dict[str, str]]]:
        raise RuntimeError("actor gone")

    telemetry.observe_gauge(schema.GAUGE_QUEUED, read)
    telemetry.observe_gauge(schema.GAUGE_IN_FLIGHT, lambda: [(1.0, {}), (math.nan, {"k": "v"})])
    sink.wait_for(lambda: len(points(sink, schema.GAUGE_IN_FLIGHT)) >= 5)
    assert points(sink, schema.GAUGE_QUEUED) == []
    assert {point.value for point in points(sink, schema.GAUGE_IN_FLIGHT)} == {1.0}
    assert len(caplog.records) == 1


def test_shutdown_sends_a_final_collection(sink: OtlpSink, make_telemetry: MakeTelemetry) -> None:
    telemetry = make_telemetry(sink.url, metrics_interval_seconds=3600.0)
    fed = [1.0]
    telemetry.observe_sum(schema.SUM_FED, lambda: [(fed[0], {})])
    assert telemetry.flush(WATCHDOG_SECONDS)
    fed[0] = 7.0
    telemetry.shutdown(WATCHDOG_SECONDS)
    assert [point.value for point in points(sink, schema.SUM_FED)] == [1.0, 7.0]
