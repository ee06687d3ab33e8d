"""OTLP bodies: what comes out of protobuf and JSON, and what is refused."""

import gzip
import json
import math
import zlib
from contextlib import suppress
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue, KeyValueList
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_DELTA,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from exporter import otlp
from exporter.errors import BodyTooLarge, MalformedRequest, UnsupportedMedia
from exporter.records import Batch, Reply, Source
from tests.wire import Emitter, key_values

LIMIT = 1_000_000


def decode_json(document: str | dict[str, Any], *, signal: otlp.Signal = "traces") -> Batch:
    text = document if isinstance(document, str) else json.dumps(document)
    _, batch = otlp.decode_request(signal, "application/json", "", text.encode(), limit_bytes=LIMIT)
    return batch


def spans_document(*spans: dict[str, Any], resource: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"resourceSpans": [{"resource": resource or {}, "scopeSpans": [{"spans": list(spans)}]}]}


def test_a_span_keeps_its_source_times_ids_and_attributes() -> None:
    emitter = Emitter(
        "", run="r", source="t0", attempt=2, resource={"rl.algorithm": "grpo", "service.name": "s"}
    )
    span = emitter.train_step(3, 9, values={"reward": [8.0, 4.0, 0.0, 1.0, 2.0]}, start=10.0, end=11.5)
    span.dropped_attributes_count = 5
    (decoded,) = otlp.decode("traces", emitter.request(span).SerializeToString()).spans
    assert decoded.source == Source(
        source_id="t0", role="trainer", run="r", attempt=2, algorithm="grpo", service_name="s"
    )
    assert (decoded.name, decoded.trace_id, decoded.span_id) == (
        "asyncrl.train_step",
        span.trace_id,
        span.span_id,
    )
    assert (decoded.start_ns, decoded.end_ns, decoded.dropped_attributes) == (
        10_000_000_000,
        11_500_000_000,
        5,
    )
    assert decoded.attributes == {
        "asyncrl.step": 9,
        "asyncrl.metric.reward": (8.0, 4.0, 0.0, 1.0, 2.0),
        "asyncrl.seq": 1,
        "asyncrl.param_version": 3,
    }


def test_maps_and_bytes_are_left_out_but_keep_their_place_in_an_array() -> None:
    pairs = [
        KeyValue(key="map", value=AnyValue(kvlist_value=KeyValueList())),
        KeyValue(key="bytes", value=AnyValue(bytes_value=b"x")),
        KeyValue(key="nothing"),
        *key_values({"kept": [True, 1, 2.5, "s", ["nested"]]}),
    ]
    pairs[-1].value.array_value.values.insert(1, AnyValue(bytes_value=b"x"))
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.add(name="n", attributes=pairs)
    (span,) = otlp.decode("traces", request.SerializeToString()).spans
    assert span.attributes == {"kept": (True, "", 1, 2.5, "s", ("nested",))}


def test_the_instance_id_stands_in_for_a_missing_source_id() -> None:
    request = ExportTraceServiceRequest()
    resource_spans = request.resource_spans.add()
    resource_spans.resource.attributes.extend(
        key_values({"service.instance.id": "i", "asyncrl.run.attempt": "2"})
    )
    resource_spans.scope_spans.add().spans.add(name="n")
    (span,) = otlp.decode("traces", request.SerializeToString()).spans
    assert span.source == Source(source_id="i", attempt=2)


def test_points_say_what_kind_they_are() -> None:
    emitter = Emitter("")
    metrics = [
        emitter.gauge("g", 1.5, {"asyncrl.state": "training"}, at=7.0),
        emitter.sum("s", 64, start=1.0, at=2.0),
        emitter.sum("d", 1, start=1.0, at=2.0, temporality=AGGREGATION_TEMPORALITY_DELTA),
        Metric(name="h", histogram=Histogram(data_points=[HistogramDataPoint(count=1)])),
        Metric(name="nothing"),
        Metric(name="empty", gauge=Gauge(data_points=[NumberDataPoint()])),
        Metric(name="stale", gauge=Gauge(data_points=[NumberDataPoint(flags=1)])),
    ]
    up_down = emitter.sum("u", 3, start=1.0)
    up_down.sum.is_monotonic = False
    request = ExportMetricsServiceRequest()
    request.resource_metrics.add(resource=emitter.resource).scope_metrics.add(metrics=[*metrics, up_down])
    batch = otlp.decode("metrics", request.SerializeToString())
    assert [(point.name, point.kind) for point in batch.points] == [
        ("g", "gauge"),
        ("s", "sum"),
        ("d", "delta"),
        ("h", "other"),
        ("u", "gauge"),
    ]
    gauge, total, _, histogram, _ = batch.points
    assert (gauge.value, gauge.time_ns, gauge.attributes) == (
        1.5,
        7_000_000_000,
        {"asyncrl.state": "training"},
    )
    assert (total.value, total.start_ns, total.time_ns) == (64.0, 1_000_000_000, 2_000_000_000)
    assert math.isnan(histogram.value)
    assert batch.malformed == ("metric 'nothing' has no data", "a data point of metric 'empty' has no value")


def test_json_ids_are_hex_and_its_64_bit_integers_may_be_strings() -> None:
    span = {
        "traceId": "5B8EFFF798038103D269B633813FC60C",
        "spanId": "eee19b7ec3c1b174",
        "parentSpanId": "",
        "name": "asyncrl.train_step",
        "kind": 1,
        "startTimeUnixNano": "1544712660000000000",
        "endTimeUnixNano": 1544712661000000000,
        "attributes": [
            {"key": "asyncrl.step", "value": {"intValue": "9007199254740993"}},
            {"key": "asyncrl.metric.loss", "value": {"doubleValue": "NaN"}},
        ],
        "aFieldOfTheFuture": {"x": []},
    }
    resource = {"attributes": [{"key": "rl.run.id", "value": {"stringValue": "r"}}]}
    (decoded,) = decode_json(spans_document(span, resource=resource)).spans
    assert decoded.source.run == "r"
    assert decoded.trace_id.hex() == "5b8efff798038103d269b633813fc60c"
    assert decoded.span_id.hex() == "eee19b7ec3c1b174"
    assert (decoded.start_ns, decoded.end_ns) == (1544712660000000000, 1544712661000000000)
    assert decoded.attributes["asyncrl.step"] == 9007199254740993
    loss = decoded.attributes["asyncrl.metric.loss"]
    assert isinstance(loss, float)
    assert math.isnan(loss)


def test_json_and_protobuf_of_one_request_decode_alike_and_journal_the_same_bytes() -> None:
    emitter = Emitter("", resource={"rl.model.name": "a/b"})
    request = emitter.request(
        emitter.train_step(1, 1, values={"policy_loss": 0.5}), emitter.weight_sync(1, 1, ["0"])
    )
    document = json_format.MessageToDict(request)
    for spans in document["resourceSpans"][0]["scopeSpans"]:
        for json_span, span in zip(
            spans["spans"], request.resource_spans[0].scope_spans[0].spans, strict=True
        ):
            json_span["traceId"], json_span["spanId"] = span.trace_id.hex(), span.span_id.hex()
    body, batch = otlp.decode_request(
        "traces",
        "application/json; charset=utf-8",
        "identity",
        json.dumps(document).encode(),
        limit_bytes=LIMIT,
    )
    assert batch == otlp.decode("traces", request.SerializeToString()) == otlp.decode("traces", body)


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "nul\0"])
def test_c34_lone_surrogates_and_nul_become_replacement_characters(text: str) -> None:
    span = {"name": text, "attributes": [{"key": text, "value": {"stringValue": text}}]}
    (decoded,) = decode_json(spans_document(span)).spans
    clean = "".join("\N{REPLACEMENT CHARACTER}" if char in "\ud800\udfff\0" else char for char in text)
    assert (decoded.name, decoded.attributes) == (clean, {clean: clean})


def test_a_surrogate_pair_is_one_character() -> None:
    (decoded,) = decode_json(
        '{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"\\ud83d\\ude00"}]}]}]}'
    ).spans
    assert decoded.name == "\N{GRINNING FACE}"


def test_protobuf_text_that_is_not_utf8_is_malformed() -> None:
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.add(name="abc")
    with pytest.raises(MalformedRequest):
        otlp.decode("traces", request.SerializeToString().replace(b"abc", b"\xed\xa0\x80"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{",
        '{"resourceSpans": 7}',
        '{"resourceSpans": [7]}',
        '{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "xyz"}]}]}]}',
        '{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": 5}]}]}]}',
        '{"resourceSpans": [{"scopeSpans": [{"spans": [{"startTimeUnixNano": 1e400}]}]}]}',
        '{"resourceSpans": [{"scopeSpans": [{"spans": [{"startTimeUnixNano": 1' + "0" * 400 + "}]}]}]}",
        '{"resourceSpans": [{"scopeSpans": [{"spans": [{"startTimeUnixNano": 1' + "0" * 9000 + "}]}]}]}",
        '{"resourceMetrics": [], "resourceSpans": [{"scopeSpans": [{"spans": [{"attributes": [{"value": '
        '{"doubleValue": 1' + "0" * 400 + "}}]}]}]}]}",
        '{"a":' * 100_000,
        "[" * 100_000,
        '{"resourceSpans":' + "[" * 500 + "]" * 500 + "}",
    ],
)
def test_c95_json_that_is_no_request_is_malformed_however_deep(text: str) -> None:
    with pytest.raises(MalformedRequest):
        decode_json(text)


@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_or_malformed(body: bytes) -> None:
    for signal in ("traces", "metrics"):
        for content_type in ("application/json", "application/x-protobuf"):
            with suppress(MalformedRequest):
                otlp.decode_request(signal, content_type, "", body, limit_bytes=LIMIT)


def request_bytes() -> bytes:
    emitter = Emitter("")
    return emitter.request(emitter.weight_sync(0, 0)).SerializeToString()


def gunzip(body: bytes, *, limit: int = LIMIT) -> bytes:
    decoded, _ = otlp.decode_request("traces", "application/x-protobuf", "gzip", body, limit_bytes=limit)
    return decoded


def test_gzip_is_taken() -> None:
    body = request_bytes()
    assert gunzip(gzip.compress(body)) == body


def test_c95_a_gzip_bomb_stops_at_the_limit() -> None:
    with pytest.raises(BodyTooLarge):
        gunzip(gzip.compress(bytes(20_000_000)))


def test_a_body_of_exactly_the_limit_passes_and_one_byte_more_does_not() -> None:
    body = request_bytes()
    assert gunzip(gzip.compress(body), limit=len(body)) == body
    with pytest.raises(BodyTooLarge):
        gunzip(gzip.compress(body), limit=len(body) - 1)
    with pytest.raises(BodyTooLarge):
        otlp.decode_request("traces", "application/x-protobuf", "", body, limit_bytes=len(body) - 1)


def test_c95_a_small_body_of_very_many_records_is_too_large() -> None:
    spans = ExportTraceServiceRequest()
    spans.resource_spans.add().scope_spans.add().spans.extend([Span()] * 300_000)
    points = ExportMetricsServiceRequest()
    gauge = Metric(gauge=Gauge(data_points=[NumberDataPoint()] * 300_000))
    points.resource_metrics.add().scope_metrics.add(metrics=[gauge])
    for signal, content_type, body in [
        ("traces", "application/x-protobuf", spans.SerializeToString()),
        ("traces", "application/x-protobuf", b"\x0a\x00" * 300_000),  # empty resources
        ("metrics", "application/x-protobuf", points.SerializeToString()),
        ("traces", "application/json", b"[" + b"[]," * 1_000_000 + b"[]]"),
    ]:
        with pytest.raises(BodyTooLarge):
            otlp.decode_request(
                "traces" if signal == "traces" else "metrics", content_type, "", body, limit_bytes=10_000_000
            )


def test_gzip_that_is_truncated_forged_or_followed_by_more_is_malformed() -> None:
    whole = gzip.compress(request_bytes())
    forged_size = whole[:-4] + (1).to_bytes(4, "little")
    for body in (whole[:-1], whole[:20], b"", b"not gzip", forged_size, whole + whole, zlib.compress(b"x")):
        with pytest.raises(MalformedRequest):
            gunzip(body)


@pytest.mark.parametrize(
    ("content_type", "encoding"),
    [
        ("", ""),
        ("text/plain", ""),
        ("application/grpc", ""),
        ("application/json", "deflate"),
        ("application/json", "gzip, gzip"),
        ("application/x-protobuf", "zstd"),
    ],
)
def test_other_types_and_encodings_are_unsupported(content_type: str, encoding: str) -> None:
    with pytest.raises(UnsupportedMedia):
        otlp.decode_request("traces", content_type, encoding, b"{}", limit_bytes=LIMIT)


def test_a_reply_without_refusals_is_an_empty_message() -> None:
    assert otlp.response("traces", Reply(), "application/x-protobuf") == b""
    assert otlp.response("metrics", Reply(), "application/json") == b"{}"


def test_a_reply_says_how_many_were_refused_and_the_first_reason() -> None:
    reply = Reply(rejected=2, reason="sealed: late")
    message = ExportTraceServiceResponse.FromString(otlp.response("traces", reply, "application/x-protobuf"))
    assert (message.partial_success.rejected_spans, message.partial_success.error_message) == (
        2,
        "sealed: late",
    )
    assert json.loads(otlp.response("metrics", reply, "application/json")) == {
        "partialSuccess": {"rejectedDataPoints": "2", "errorMessage": "sealed: late"}
    }


def test_a_failure_is_a_google_rpc_status_in_the_type_of_the_request() -> None:
    assert otlp.failure(400, "why", "application/json") == (
        "application/json",
        b'{"code": 3, "message": "why"}',
    )
    media, body = otlp.failure(413, "x" * 300, "application/x-protobuf")
    assert media == "application/x-protobuf"
    assert body == b"\x08\x08" + b"\x12\xac\x02" + b"x" * 300  # code 8, then 300 bytes of message
