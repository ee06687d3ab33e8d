"""OTLP/HTTP bodies in and out: bytes -> Batch, Reply -> bytes. Protobuf and OTLP JSON, gzip and identity.

    request body -> (gunzip, bounded) -> (OTLP JSON -> protobuf) -> decode -> Batch of Span and Point

The protobuf bytes are the canonical form: the journal keeps them and replays them through `decode`.
"""

import base64
import json
import math
import re
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from google.protobuf import json_format
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    DataPointFlags,
    Metric,
    NumberDataPoint,
    Sum,
)

from exporter.attributes import whole
from exporter.errors import BodyTooLarge, MalformedRequest, UnsupportedMedia
from exporter.records import NO_COUNT, AttributeValue, Batch, Point, Reply, Source, Span
from runtime.telemetry import schema

Signal = Literal["traces", "metrics"]
PointKind = Literal["gauge", "sum", "delta", "other"]

PROTOBUF = "application/x-protobuf"
JSON = "application/json"

_LARGEST_WEIGHT = 2_000_000
"""Attributes of one request, its records counting 8 each: two bytes can be an empty span of 400 bytes here."""
_RECORD_WEIGHT = 8
_MOST_JSON_VALUES = 500_000
"""Of one OTLP JSON request: 3 s of decoding, in which other requests wait. As protobuf it is 40 times as fast."""

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_SURROGATES = re.compile("[\ud800-\udfff]")
_HEX_IDS = ("traceId", "spanId", "parentSpanId")


def media_type(content_type: str) -> str:
    """The media type of a Content-Type header, its parameters left out."""
    return content_type.partition(";")[0].strip().lower()


def decode_request(
    signal: Signal, content_type: str, content_encoding: str, body: bytes, *, limit_bytes: int
) -> tuple[bytes, Batch]:
    """The canonical protobuf bytes of a request and what they say.

    Raises UnsupportedMedia, BodyTooLarge (before or after decompression) or MalformedRequest.
    """
    media = media_type(content_type)
    if media not in (PROTOBUF, JSON):
        raise UnsupportedMedia(f"content type must be {PROTOBUF} or {JSON}, got {content_type!r}")
    encoding = content_encoding.strip().lower()
    if encoding not in ("", "identity", "gzip"):
        raise UnsupportedMedia(f"content encoding must be gzip or identity, got {content_encoding!r}")
    if len(body) > limit_bytes:
        raise BodyTooLarge(f"body is over the limit of {limit_bytes} bytes")
    if encoding == "gzip":
        body = _gunzip(body, limit_bytes)
    if media == JSON:
        body = _protobuf_of_json(signal, body)
    return body, decode(signal, body)


def _gunzip(body: bytes, limit_bytes: int) -> bytes:
    # Stops one byte above the limit, whatever size the trailer claims. One gzip member only: a body of a
    # million empty members would cost a copy of the rest for each.
    stream = zlib.decompressobj(wbits=31)
    try:
        plain = stream.decompress(body, limit_bytes + 1)
    except zlib.error as error:
        raise MalformedRequest(f"body is not gzip: {error}") from error
    if len(plain) > limit_bytes:
        raise BodyTooLarge(f"body decompresses to more than the limit of {limit_bytes} bytes")
    if not stream.eof or stream.unused_data:
        raise MalformedRequest(
            "gzip body is truncated" if not stream.eof else "gzip body has bytes after its end"
        )
    return plain


def _protobuf_of_json(signal: Signal, body: bytes) -> bytes:
    if sum(map(body.count, (b"{", b"[", b","))) > _MOST_JSON_VALUES:
        raise BodyTooLarge(f"body holds more than {_MOST_JSON_VALUES} JSON values")
    message = ExportTraceServiceRequest() if signal == "traces" else ExportMetricsServiceRequest()
    try:
        document = _with_base64_ids(json.loads(body))
        if not isinstance(document, dict):
            raise MalformedRequest(f"OTLP JSON must be an object, got {type(document).__name__}")
        json_format.ParseDict(document, message, ignore_unknown_fields=True)
    except (ValueError, OverflowError, RecursionError, json_format.ParseError) as error:
        reason = "nested too deep" if isinstance(error, RecursionError) else _one_line(error)
        raise MalformedRequest(f"not an OTLP JSON {signal} request: {reason}") from error
    return message.SerializeToString()


def _with_base64_ids(node: Any, key: str = "") -> Any:
    """OTLP JSON writes ids in hex where protobuf's JSON mapping expects base64. Escapes of lone surrogates,
    which no protobuf string can hold, are replaced on the way."""
    if isinstance(node, dict):
        return {_valid_text(name): _with_base64_ids(value, name) for name, value in node.items()}
    if isinstance(node, list):
        return [_with_base64_ids(value) for value in node]
    if not isinstance(node, str):
        return node
    return base64.b64encode(bytes.fromhex(node)).decode() if key in _HEX_IDS else _valid_text(node)


def _valid_text(text: str) -> str:
    return text if text.isascii() else _SURROGATES.sub(_REPLACEMENT, text)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


class _Budget:
    """What one request may still hold. Raises BodyTooLarge, on which senders halve their batch."""

    def __init__(self) -> None:
        self._left = _LARGEST_WEIGHT

    def spend(self, weight: int) -> None:
        self._left -= weight
        if self._left < 0:
            raise BodyTooLarge("too many records or attributes in one request")


def decode(signal: Signal, body: bytes) -> Batch:
    """Decode a protobuf request. Raises MalformedRequest, also for strings that are not UTF-8, or BodyTooLarge."""
    try:
        if signal == "traces":
            return Batch(spans=tuple(_spans(ExportTraceServiceRequest.FromString(body))))
        request = ExportMetricsServiceRequest.FromString(body)
    except DecodeError as error:
        raise MalformedRequest(f"not an OTLP protobuf {signal} request: {_one_line(error)}") from error
    malformed: list[str] = []
    points = tuple(_points(request, malformed))
    return Batch(points=points, malformed=tuple(malformed))


def _spans(request: ExportTraceServiceRequest) -> Iterator[Span]:
    budget = _Budget()
    for resource_spans in request.resource_spans:
        budget.spend(
            _RECORD_WEIGHT + len(resource_spans.resource.attributes) + len(resource_spans.scope_spans)
        )
        source = _source(resource_spans.resource.attributes)
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                budget.spend(_RECORD_WEIGHT + len(span.attributes))
                yield Span(
                    source=source,
                    name=_clean(span.name),
                    trace_id=span.trace_id,
                    span_id=span.span_id,
                    start_ns=span.start_time_unix_nano,
                    end_ns=span.end_time_unix_nano,
                    attributes=_attributes(span.attributes),
                    dropped_attributes=span.dropped_attributes_count,
                )


def _points(request: ExportMetricsServiceRequest, malformed: list[str]) -> Iterator[Point]:
    budget = _Budget()
    for resource_metrics in request.resource_metrics:
        budget.spend(_RECORD_WEIGHT + len(resource_metrics.resource.attributes))
        budget.spend(len(resource_metrics.scope_metrics))
        source = _source(resource_metrics.resource.attributes)
        for scope_metrics in resource_metrics.scope_metrics:
            for metric in scope_metrics.metrics:
                budget.spend(_RECORD_WEIGHT)
                yield from _metric_points(source, metric, budget, malformed)


def _metric_points(source: Source, metric: Metric, budget: _Budget, malformed: list[str]) -> Iterator[Point]:
    shape = metric.WhichOneof("data")
    name = _clean(metric.name)
    if shape is None:
        malformed.append(f"metric {name!r} has no data")
        return
    kind: PointKind = "gauge" if shape == "gauge" else _kind_of_sum(metric.sum) if shape == "sum" else "other"
    for point in getattr(metric, shape).data_points:
        budget.spend(_RECORD_WEIGHT + len(point.attributes))
        if point.flags & DataPointFlags.DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK:
            continue
        value = math.nan if kind == "other" else _number(point)
        if value is None:
            malformed.append(f"a data point of metric {name!r} has no value")
            continue
        yield Point(
            source=source,
            name=name,
            kind=kind,
            value=value,
            time_ns=point.time_unix_nano,
            start_ns=point.start_time_unix_nano,
            attributes=_attributes(point.attributes),
        )


def _kind_of_sum(data: Sum) -> PointKind:
    if data.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE:
        return "sum" if data.is_monotonic else "gauge"  # an UpDownCounter is a state, not a count
    return "delta"


def _number(point: NumberDataPoint) -> float | None:
    field = point.WhichOneof("value")
    if field is None:
        return None
    return float(point.as_double if field == "as_double" else point.as_int)


def _source(attributes: Iterable[KeyValue]) -> Source:
    said = _attributes(attributes)

    def text(key: str) -> str:
        value = said.get(key, "")
        return value if isinstance(value, str) else ""

    def count(key: str) -> int | None:
        value = said.get(key)
        if isinstance(value, str) and value.isascii() and value.isdigit():
            value = float(value)  # OTEL_RESOURCE_ATTRIBUTES can say no integers
        number = None if value is None else whole(value)
        return NO_COUNT if value is not None and number is None else number

    return Source(
        source_id=text(schema.SOURCE_ID) or text(schema.SERVICE_INSTANCE_ID),
        role=text(schema.ROLE),
        run=text(schema.RUN_ID),
        attempt=count(schema.ATTEMPT),
        schema_version=str(said.get(schema.SCHEMA, schema.SCHEMA_VERSION)),
        service_name=text(schema.SERVICE_NAME),
        algorithm=text(schema.ALGORITHM),
        model=text(schema.MODEL),
        steps_per_version=count(schema.STEPS_PER_VERSION),
        staleness_limit=count(schema.STALENESS_LIMIT),
    )


def _attributes(pairs: Iterable[KeyValue]) -> dict[str, AttributeValue]:
    return {
        _clean(pair.key): value
        for pair in pairs
        if (value := pair.value.double_value or _value(pair.value)) is not None
    }


def _value(value: AnyValue) -> AttributeValue | None:
    """None for what the wire has no use for: maps, bytes, nothing. Within an array an empty text stands for them, so
    that their neighbours stay in their places and whoever reads it finds out.

    Nearly all values are doubles: callers try `double_value` first, which is 0.0 for every other kind. Nearly all
    others are counts in arrays, many of them 0.
    """
    field = value.WhichOneof("value")
    if field == "int_value":
        return value.int_value
    if field == "double_value":
        return value.double_value
    if field == "string_value":
        return _clean(value.string_value)
    if field == "bool_value":
        return value.bool_value
    if field == "array_value":
        items = [
            item.double_value or item.int_value or (0 if item.HasField("int_value") else _value(item))
            for item in value.array_value.values
        ]
        return tuple(["" if item is None else item for item in items])
    return None


def _clean(text: str) -> str:
    return text.replace("\0", _REPLACEMENT) if "\0" in text else text


def response(signal: Signal, reply: Reply, content_type: str) -> bytes:
    """The body of a 200 in the content type of the request; `partial_success` if it says something."""
    message: ExportTraceServiceResponse | ExportMetricsServiceResponse
    if signal == "traces":
        message = ExportTraceServiceResponse()
        if reply.rejected:
            message.partial_success.rejected_spans = reply.rejected
    else:
        message = ExportMetricsServiceResponse()
        if reply.rejected:
            message.partial_success.rejected_data_points = reply.rejected
    if reply.reason:
        message.partial_success.error_message = reply.reason
    if media_type(content_type) == JSON:
        return json_format.MessageToJson(message, indent=None).encode()
    return message.SerializeToString()


_GRPC_CODES = {400: 3, 401: 16, 413: 8, 415: 3, 429: 8, 503: 14}
"""google.rpc.Code of each status: INVALID_ARGUMENT, UNAUTHENTICATED, RESOURCE_EXHAUSTED, UNAVAILABLE."""


def failure(status: int, message: str, content_type: str) -> tuple[str, bytes]:
    """Content type and body of an answer other than 200: a google.rpc.Status, as OTLP/HTTP asks for."""
    code = _GRPC_CODES.get(status, 13)
    if media_type(content_type) == JSON:
        return JSON, json.dumps({"code": code, "message": message}).encode()
    # Status is {1: code (int32), 2: message (string)}; its generated class would be one more dependency.
    text = message[:1000].encode()
    return PROTOBUF, bytes((0x08, code, 0x12, len(text) & 0x7F | 0x80, len(text) >> 7)) + text


def failure_message(content: bytes) -> str:
    """The message of such a body in protobuf."""
    return content[5:].decode("utf-8", "replace")
