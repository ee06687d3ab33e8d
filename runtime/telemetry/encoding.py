"""From the SDK's spans and metrics to the bytes of OTLP requests."""

from collections.abc import Mapping, Sequence

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan

from runtime.telemetry import schema
from runtime.telemetry.partial import Partial

SCOPE = "asyncrl"


def encode_span(span: ReadableSpan, values: Mapping[str, float | Partial]) -> bytes:
    """One span alone, without its resource. The values that it carries, by metric name, are its first attributes:
    the last are those that no limit on the way may cost."""
    message = Span()
    for name, value in values.items():
        _add_value(message, name, value)
    message.MergeFrom(encode_spans([span]).resource_spans[0].scope_spans[0].spans[0])
    return message.SerializeToString()


def _add_value(message: Span, name: str, value: float | Partial) -> None:
    """Of a Partial its parts, its buckets and what was not finite."""
    said = message.attributes.add(key=schema.METRIC_PREFIX + name).value
    if not isinstance(value, Partial):
        said.double_value = value
        return
    for part in (value.count, value.sum, value.min, value.max, value.m2):
        said.array_value.values.add(double_value=part)
    if value.buckets is not None:
        buckets = message.attributes.add(key=schema.BUCKETS_PREFIX + name).value.array_value
        for count in value.buckets:
            buckets.values.add(int_value=count)
    if value.nonfinite:
        message.attributes.add(key=schema.NONFINITE_PREFIX + name).value.int_value = value.nonfinite


def resource_envelope(resource: Resource) -> ExportTraceServiceRequest:
    """A request of `resource` and no spans yet."""
    # The encoder of a resource is private; the one of metrics encodes it on the way.
    data = MetricsData([ResourceMetrics(resource=resource, scope_metrics=[], schema_url="")])
    envelope = ExportTraceServiceRequest()
    resource_spans = envelope.resource_spans.add()
    resource_spans.resource.CopyFrom(encode_metrics(data).resource_metrics[0].resource)
    resource_spans.scope_spans.add().scope.name = SCOPE
    return envelope


def encode_batch(envelope: ExportTraceServiceRequest, spans: Sequence[bytes]) -> bytes:
    """The request that carries `spans`; the envelope stays as it is."""
    request = ExportTraceServiceRequest()
    request.CopyFrom(envelope)
    scope_spans = request.resource_spans[0].scope_spans[0]
    for data in spans:
        scope_spans.spans.add().MergeFromString(data)
    return request.SerializeToString()


def encode_points(data: MetricsData, *, start_ns: int, now_ns: int) -> bytes:
    """A metrics request whose points all carry these two times.

    The SDK stamps with the wall clock, and starts a sum at its first collection; ours starts with the process.
    """
    request = encode_metrics(data)
    for resource_metrics in request.resource_metrics:
        for scope_metrics in resource_metrics.scope_metrics:
            for metric in scope_metrics.metrics:
                for gauge in metric.gauge.data_points:
                    gauge.time_unix_nano = now_ns
                for point in metric.sum.data_points:
                    point.time_unix_nano, point.start_time_unix_nano = now_ns, start_ns
    return request.SerializeToString()
