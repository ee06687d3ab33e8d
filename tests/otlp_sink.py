"""A tiny OTLP/HTTP receiver that records what it is sent and answers as told.

with OtlpSink() as sink:
    Telemetry(TelemetryConfig(endpoints=(sink.url,)), identity) ...
    sink.wait_for(lambda: len(sink.spans) == 3)
"""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import NamedTuple, Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

WATCHDOG_SECONDS = 200.0

Value = str | bool | int | float | list["Value"]


class SpanSeen(NamedTuple):
    name: str
    attributes: dict[str, Value]
    resource: dict[str, Value]
    message: Span


class PointSeen(NamedTuple):
    name: str
    kind: str
    """`gauge` or `sum`."""
    value: float
    attributes: dict[str, Value]
    start_ns: int
    time_ns: int
    temporality: int
    monotonic: bool
    request: int
    """Which metrics request it came in, from 0."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    rejected: int = 0
    message: str = ""


class OtlpSink:
    """Listens on a free port of 127.0.0.1 (or `port`). Change `reply`, or call `hang`, at any time."""

    def __init__(self, port: int = 0) -> None:
        self.reply: Callable[[str, bytes], Reply] = lambda path, body: Reply()
        """From path and body to the answer; records count as taken on a 2xx only."""
        self.requests: list[tuple[str, int]] = []
        """Path and answered status of every request, in order."""
        self.spans: list[SpanSeen] = []
        self.points: list[PointSeen] = []
        self._metrics_requests = 0
        self._changed = threading.Condition()
        self._answering = threading.Event()
        self._answering.set()
        self.hanging = 0
        """Requests that are being left without an answer now."""
        sink = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                sink._pass_gate()
                reply = sink.reply(self.path, body)
                content = sink._record(self.path, body, reply)
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
                """Quiet."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                """A sender that gave up while we hung is no error of ours."""

        self._server = Server(("127.0.0.1", port), Handler)
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.answer()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def hang(self) -> None:
        """Accept and read requests, but answer none until `answer` is called."""
        self._answering.clear()

    def answer(self) -> None:
        self._answering.set()

    def answer_statuses(self, statuses: Iterable[int]) -> None:
        """Answer the next trace requests with these statuses in turn, then 200."""
        left = iter(list(statuses))
        self.reply = lambda path, body: Reply(status=next(left, 200) if path == "/v1/traces" else 200)

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Block until `condition` holds; it is looked at after each request."""
        with self._changed:
            if not self._changed.wait_for(condition, WATCHDOG_SECONDS):
                raise TimeoutError(
                    f"still not so after {WATCHDOG_SECONDS} s: {len(self.spans)} spans, {self.requests[-5:]}"
                )

    def named(self, name: str) -> list[SpanSeen]:
        return [span for span in self.spans if span.name == name]

    def _pass_gate(self) -> None:
        if not self._answering.is_set():
            with self._changed:
                self.hanging += 1
                self._changed.notify_all()
            self._answering.wait()
            with self._changed:
                self.hanging -= 1

    def _record(self, path: str, body: bytes, reply: Reply) -> bytes:
        taken = 200 <= reply.status < 300
        with self._changed:
            self.requests.append((path, reply.status))
            if taken and path == "/v1/traces":
                self._record_spans(ExportTraceServiceRequest.FromString(body))
            elif taken:
                self._record_points(ExportMetricsServiceRequest.FromString(body))
            self._changed.notify_all()
        if not taken:
            return reply.message.encode()
        if path == "/v1/traces":
            traces = ExportTraceServiceResponse()
            traces.partial_success.rejected_spans = reply.rejected
            traces.partial_success.error_message = reply.message
            return traces.SerializeToString()
        metrics = ExportMetricsServiceResponse()
        metrics.partial_success.rejected_data_points = reply.rejected
        metrics.partial_success.error_message = reply.message
        return metrics.SerializeToString()

    def _record_spans(self, request: ExportTraceServiceRequest) -> None:
        for resource_spans in request.resource_spans:
            resource = _attributes(resource_spans.resource.attributes)
            for scope_spans in resource_spans.scope_spans:
                self.spans += [
                    SpanSeen(span.name, _attributes(span.attributes), resource, span)
                    for span in scope_spans.spans
                ]

    def _record_points(self, request: ExportMetricsServiceRequest) -> None:
        number = self._metrics_requests
        self._metrics_requests += 1
        for resource_metrics in request.resource_metrics:
            for scope_metrics in resource_metrics.scope_metrics:
                for metric in scope_metrics.metrics:
                    kind = metric.WhichOneof("data")
                    data = metric.gauge.data_points if kind == "gauge" else metric.sum.data_points
                    self.points += [
                        PointSeen(
                            name=metric.name,
                            kind=str(kind),
                            value=point.as_int if point.HasField("as_int") else point.as_double,
                            attributes=_attributes(point.attributes),
                            start_ns=point.start_time_unix_nano,
                            time_ns=point.time_unix_nano,
                            temporality=metric.sum.aggregation_temporality,
                            monotonic=metric.sum.is_monotonic,
                            request=number,
                        )
                        for point in data
                    ]


def _attributes(attributes: Iterable[KeyValue]) -> dict[str, Value]:
    return {attribute.key: _value(attribute.value) for attribute in attributes}


def _value(value: AnyValue) -> Value:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    result = getattr(value, str(kind))
    assert isinstance(result, str | bool | int | float)
    return result
