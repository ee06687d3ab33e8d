"""Hypothesis strategies for OTLP requests that are nearly right: the names of the contract with values that are not."""

import math
from typing import Any

from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Gauge, Metric, NumberDataPoint, Sum
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from exporter import catalog
from runtime.telemetry import schema
from tests.wire import any_value

RUNS = ("a", 'b"\\\n# TYPE x counter\nx 1', "c\ud7ff\ufffe{}")
METRICS = (*catalog.METRIC_BY_NAME, "mine", "mine/2", "le", "损失", "9x", "", "x" * 300)
PREFIXES = (
    schema.METRIC_PREFIX,
    schema.BUCKETS_PREFIX,
    schema.NONFINITE_PREFIX,
    schema.STATISTIC_PREFIX,
    schema.REPORTED_PREFIX,
)
POINTS = tuple(value for name, value in vars(schema).items() if name.startswith(("GAUGE_", "SUM_")))

small = st.integers(-1, 6)
numbers = small | st.sampled_from([2**31, 2**53 + 1, 2**63 - 1, -(2**63)])
floats = st.floats() | st.sampled_from([math.nan, math.inf, -math.inf, 1e308, 5e-324, 0.5])
texts = st.text(max_size=12) | st.sampled_from(["", "\0", "x" * 10_000, 'a"\\\nb', *schema.END_STATUSES])
scalars: st.SearchStrategy[Any] = numbers | floats | texts | st.booleans()
partials = st.tuples(small, floats, floats, floats, floats).map(list)
values: st.SearchStrategy[Any] = scalars | st.lists(scalars, max_size=20) | partials


def _keys() -> st.SearchStrategy[str]:
    prefixed = st.tuples(st.sampled_from(PREFIXES), st.sampled_from(METRICS)).map("".join)
    states = st.sampled_from([*schema.ROLLOUTER_STATES, *schema.TRAINER_STATES, "dreaming"])
    return prefixed | states.map(schema.STATE_SECONDS_PREFIX.__add__) | texts


def _pairs(attributes: dict[str, Any]) -> list[KeyValue]:
    return [
        KeyValue(key=key, value=AnyValue() if value is None else any_value(value))
        for key, value in attributes.items()
    ]


usual = {
    schema.SEQ: small | numbers,
    schema.PARAM_VERSION: small | values,
    schema.STEP: small | values,
    schema.STEPS_IN_WINDOW: small | values,
    schema.STATUS: st.sampled_from(schema.END_STATUSES) | values,
    schema.ROLLOUTER: st.sampled_from(["0", "1"]) | texts,
    schema.ROLLOUTERS: st.lists(texts, max_size=3) | values,
    schema.SAMPLE_COUNT: small | values,
    schema.CAPACITY_SECONDS: floats,
    schema.BUSY_CAPACITY_SECONDS: floats,
    schema.PARAM_VERSION_FROM: small,
    schema.ATTEMPT: small | values,
}
attributes = st.builds(
    lambda known, others: known | others,
    st.fixed_dictionaries({}, optional=usual),
    st.dictionaries(_keys(), values, max_size=6),
)
resources = st.fixed_dictionaries(
    {
        schema.SOURCE_ID: st.sampled_from(["s0", "s1"]) | texts,
        schema.ROLE: st.sampled_from(schema.ROLES) | texts,
        schema.RUN_ID: st.sampled_from(RUNS),
    },
    optional={schema.MODEL: texts, schema.ALGORITHM: texts, schema.ATTEMPT: small, "service.name": texts},
).map(lambda said: Resource(attributes=_pairs(said)))
times = st.integers(0, 2**64 - 1) | st.integers(1_796_000_000, 1_797_000_000).map(lambda s: s * 10**9)
names = st.sampled_from([*schema.CONTROL_SPANS, schema.ROLLOUT]) | texts

spans = st.builds(
    lambda name, start, end, said, dropped: Span(
        name=name,
        trace_id=bytes(16),
        span_id=start.to_bytes(8),
        start_time_unix_nano=start,
        end_time_unix_nano=end,
        attributes=_pairs(said),
        dropped_attributes_count=dropped,
    ),
    names,
    times,
    times,
    attributes,
    st.integers(0, 1),
)


def _metric(name: str, point: NumberDataPoint, kind: Any) -> Metric:
    if kind == 0:
        return Metric(name=name, gauge=Gauge(data_points=[point]))
    return Metric(name=name, sum=Sum(data_points=[point], aggregation_temporality=kind, is_monotonic=True))


points = st.builds(
    lambda start, end, value, said: NumberDataPoint(
        start_time_unix_nano=start, time_unix_nano=end, as_double=value, attributes=_pairs(said)
    ),
    times,
    times,
    floats | small.map(float),
    st.fixed_dictionaries(
        {},
        optional={
            schema.STATE: st.sampled_from(schema.ROLLOUTER_STATES + schema.TRAINER_STATES) | texts,
            schema.ROLLOUTER: texts,
            "asyncrl.outcome": st.sampled_from(["trained", "failed"]) | texts,
        },
    ),
)
metrics = st.builds(_metric, st.sampled_from(POINTS) | texts, points, st.integers(0, 2))


def _traces(resource: Resource, said: list[Span]) -> tuple[str, bytes]:
    request = ExportTraceServiceRequest()
    request.resource_spans.add(resource=resource).scope_spans.add(spans=said)
    return "traces", request.SerializeToString()


def _metrics(resource: Resource, said: list[Metric]) -> tuple[str, bytes]:
    request = ExportMetricsServiceRequest()
    request.resource_metrics.add(resource=resource).scope_metrics.add(metrics=said)
    return "metrics", request.SerializeToString()


requests = st.builds(_traces, resources, st.lists(spans, max_size=5)) | st.builds(
    _metrics, resources, st.lists(metrics, max_size=5)
)
"""(signal, body): valid protobuf of the contract's names."""


def _damaged(request: tuple[str, bytes], place: int, change: bytes) -> tuple[str, bytes]:
    signal, body = request
    at = place % (len(body) + 1)
    return signal, body[:at] + change + body[at + len(change) :]


damaged = st.builds(_damaged, requests, st.integers(0, 5000), st.binary(min_size=1, max_size=4)) | st.tuples(
    st.sampled_from(["traces", "metrics"]), st.binary(max_size=200)
)
"""(signal, body): the same, some bytes of it changed, or noise."""
