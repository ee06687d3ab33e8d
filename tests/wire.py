"""A sender of its own: OTLP requests built with opentelemetry-proto alone, and a reader of /metrics.

trainer = Emitter(otlp_url, run="r", source="t0")
trainer.post(trainer.train_step(1, step=1, values={"policy_loss": 2.5}), trainer.weight_sync(1, steps=1))
scrape_until(metrics_url, lambda page: page.value("asyncrl_policy_loss", run="r") == 2.5)
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import requests
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    Gauge,
    Metric,
    NumberDataPoint,
    Sum,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

PROTOBUF = "application/x-protobuf"
WATCHDOG_SECONDS = 60.0
"""Far above what any wait needs; reached only when something is broken."""

Plain = str | bool | int | float | Sequence["Plain"]


def any_value(value: Plain) -> AnyValue:
    """A plain value as OTLP writes it: bool before int, a sequence as an array."""
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    if isinstance(value, str):
        return AnyValue(string_value=value)
    return AnyValue(array_value=ArrayValue(values=[any_value(item) for item in value]))


def key_values(attributes: Mapping[str, Plain | None]) -> list[KeyValue]:
    """The attributes that are not None, in their order."""
    return [
        KeyValue(key=key, value=any_value(value)) for key, value in attributes.items() if value is not None
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What the exporter said to one request."""

    status: int
    rejected: int
    reason: str
    headers: Mapping[str, str]
    body: bytes


def post_raw(
    url: str,
    body: bytes | Iterable[bytes],
    *,
    content_type: str = PROTOBUF,
    encoding: str = "",
    signal: str = "traces",
) -> Answer:
    """One request as it is, however wrong; an iterable body is sent in chunks."""
    headers = {"content-type": content_type} | ({"content-encoding": encoding} if encoding else {})
    response = requests.post(f"{url}/v1/{signal}", data=body, headers=headers, timeout=WATCHDOG_SECONDS)
    rejected, reason = 0, ""
    if response.status_code == 200 and response.headers["content-type"] == PROTOBUF:
        if signal == "traces":
            spans_said = ExportTraceServiceResponse.FromString(response.content).partial_success
            rejected, reason = spans_said.rejected_spans, spans_said.error_message
        else:
            points_said = ExportMetricsServiceResponse.FromString(response.content).partial_success
            rejected, reason = points_said.rejected_data_points, points_said.error_message
    return Answer(
        status=response.status_code,
        rejected=rejected,
        reason=reason,
        headers=response.headers,
        body=response.content,
    )


class Emitter:
    """One source, one process life. Builders give `seq` in the order they are called; `post` sends."""

    def __init__(
        self,
        url: str,
        *,
        run: str = "r",
        role: str = "trainer",
        source: str = "t0",
        attempt: int | None = None,
        resource: Mapping[str, Plain] | None = None,
    ) -> None:
        self.url = url
        self.seq = 0
        self.now = time.time()
        """Unix seconds at which the next span starts."""
        said = {
            "rl.run.id": run,
            "asyncrl.role": role,
            "asyncrl.source.id": source,
            "asyncrl.run.attempt": attempt,
        }
        self.resource = Resource(attributes=key_values(said | dict(resource or {})))

    def span(
        self,
        name: str,
        version: int | None,
        attributes: Mapping[str, Plain | None] | None = None,
        *,
        values: Mapping[str, Any] | None = None,
        states: Mapping[str, float] | None = None,
        seq: int | None = None,
        numbered: bool = True,
        start: float | None = None,
        end: float | None = None,
        seconds: float = 1.0,
    ) -> Span:
        """A span `name` of `version`. Without `start` and `end` (unix seconds) it follows the one before."""
        if numbered and seq is None:
            self.seq += 1
            seq = self.seq
        start = self.now if start is None else start
        end = start + seconds if end is None else end
        self.now = max(self.now, end)
        said: dict[str, Plain | None] = dict(attributes or {})
        said |= {f"asyncrl.state_seconds.{state}": time_in for state, time_in in (states or {}).items()}
        said |= {f"asyncrl.metric.{metric}": value for metric, value in (values or {}).items()}
        said |= {"asyncrl.seq": seq, "asyncrl.param_version": version}
        return Span(
            name=f"asyncrl.{name}",
            trace_id=time.perf_counter_ns().to_bytes(16),
            span_id=time.perf_counter_ns().to_bytes(8),
            start_time_unix_nano=round(start * 1e9),
            end_time_unix_nano=round(end * 1e9),
            attributes=key_values(said),
        )

    def train_step(
        self,
        version: int,
        step: int,
        step_in_window: int | None = None,
        *,
        values: Mapping[str, Any] | None = None,
        sample_count: int | None = None,
        trained_sample_count: int | None = None,
        token_count: int | None = None,
        attributes: Mapping[str, Plain | None] | None = None,
        **span: Any,
    ) -> Span:
        """The global `step`, which belongs to window `version`."""
        said: dict[str, Plain | None] = {
            "asyncrl.step": step,
            "asyncrl.step_in_window": step_in_window,
            "asyncrl.sample_count": sample_count,
            "asyncrl.trained_sample_count": trained_sample_count,
            "asyncrl.token_count": token_count,
        }
        return self.span("train_step", version, said | dict(attributes or {}), values=values, **span)

    def weight_sync(
        self,
        version: int,
        steps: int,
        rollouters: Sequence[str] | None = (),
        *,
        attributes: Mapping[str, Plain | None] | None = None,
        **span: Any,
    ) -> Span:
        """Publishes `version`, made by `steps` steps. `rollouters` owe a window; None leaves the list out."""
        said: dict[str, Plain | None] = {"asyncrl.steps_in_window": steps, "asyncrl.rollouters": rollouters}
        return self.span("weight_sync", version, said | dict(attributes or {}), **span)

    def rollouter_window(
        self,
        version: int,
        rollouter: str,
        states: Mapping[str, float],
        *,
        first_skipped: int | None = None,
        capacity_seconds: float | None = None,
        busy_capacity_seconds: float | None = None,
        attributes: Mapping[str, Plain | None] | None = None,
        **span: Any,
    ) -> Span:
        """What slot `rollouter` did until it began to serve `version`."""
        said: dict[str, Plain | None] = {
            "asyncrl.rollouter": rollouter,
            "asyncrl.param_version.from": first_skipped,
            "asyncrl.capacity_seconds": capacity_seconds,
            "asyncrl.busy_capacity_seconds": busy_capacity_seconds,
        }
        return self.span("rollouter_window", version, said | dict(attributes or {}), states=states, **span)

    def run_end(self, version: int, status: str = "completed", **span: Any) -> Span:
        """The end of the run, or of this source; `version` is the last one published."""
        return self.span("run_end", version, {"asyncrl.status": status}, **span)

    def window(self, version: int, steps: Iterable[Mapping[str, Any]], **sync: Any) -> list[Span]:
        """A whole window: a step of 8 samples for each mapping of values, then the sync."""
        spans = [
            self.train_step(version, self._step(), number, values=values, sample_count=8)
            for number, values in enumerate(steps, 1)
        ]
        return [*spans, self.weight_sync(version, len(spans), **sync)]

    _steps = 0

    def _step(self) -> int:
        self._steps += 1
        return self._steps

    def gauge(
        self,
        name: str,
        value: float,
        attributes: Mapping[str, Plain] | None = None,
        *,
        at: float | None = None,
    ) -> Metric:
        """One gauge point at `at` (unix seconds; now if None)."""
        return Metric(name=name, gauge=Gauge(data_points=[self._point(value, attributes, at, None)]))

    def sum(
        self,
        name: str,
        value: float,
        attributes: Mapping[str, Plain] | None = None,
        *,
        start: float,
        at: float | None = None,
        temporality: Any = AGGREGATION_TEMPORALITY_CUMULATIVE,
    ) -> Metric:
        """One point of a monotonic sum that counts from `start` (unix seconds)."""
        points = [self._point(value, attributes, at, start)]
        return Metric(
            name=name, sum=Sum(data_points=points, aggregation_temporality=temporality, is_monotonic=True)
        )

    def _point(
        self, value: float, attributes: Mapping[str, Plain] | None, at: float | None, start: float | None
    ) -> NumberDataPoint:
        point = NumberDataPoint(
            time_unix_nano=round((time.time() if at is None else at) * 1e9),
            start_time_unix_nano=round((start or 0.0) * 1e9),
            attributes=key_values(attributes or {}),
        )
        if isinstance(value, int):
            point.as_int = value
        else:
            point.as_double = value
        return point

    def request(self, *spans: Span) -> ExportTraceServiceRequest:
        """The spans as one request of this source."""
        request = ExportTraceServiceRequest()
        resource_spans = request.resource_spans.add(resource=self.resource)
        resource_spans.scope_spans.add(spans=spans)
        return request

    def metrics_request(self, *metrics: Metric) -> ExportMetricsServiceRequest:
        """The metrics as one request of this source."""
        request = ExportMetricsServiceRequest()
        resource_metrics = request.resource_metrics.add(resource=self.resource)
        resource_metrics.scope_metrics.add(metrics=metrics)
        return request

    def post(self, *spans: Span) -> Answer:
        """Sends the spans in one request."""
        return post_raw(self.url, self.request(*spans).SerializeToString())

    def post_metrics(self, *metrics: Metric) -> Answer:
        """Sends the metrics in one request."""
        return post_raw(self.url, self.metrics_request(*metrics).SerializeToString(), signal="metrics")


class Scrape:
    """One GET /metrics, parsed: `samples` maps (name, labels) to value; `exemplars` are (name, labels, exemplar)."""

    def __init__(self, url: str, *, accept: str = "") -> None:
        response = requests.get(f"{url}/metrics", headers={"accept": accept}, timeout=WATCHDOG_SECONDS)
        response.raise_for_status()
        self.text = response.content.decode("utf-8")
        self.content_type = response.headers["content-type"]
        parse = parse_openmetrics if self.content_type.startswith("application/openmetrics") else parse_text
        samples = [sample for family in parse(self.text) for sample in family.samples]
        self.samples = {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}
        self.exemplars = [
            (sample.name, sample.labels, sample.exemplar) for sample in samples if sample.exemplar is not None
        ]

    def value(self, name: str, **labels: str | int) -> float | None:
        """The one series with exactly these labels; None where there is none."""
        wanted = frozenset((label, str(value)) for label, value in labels.items())
        return self.samples.get((name, wanted))

    def by_label(self, name: str, label: str, **labels: str | int) -> dict[str, float]:
        """The series of `name` that have these labels, by the value of one more."""
        wanted = {(key, str(value)) for key, value in labels.items()}
        return {
            dict(has)[label]: value
            for (sample, has), value in self.samples.items()
            if sample == name and wanted <= has and label in dict(has)
        }


def scrape_until(url: str, condition: Callable[[Scrape], object]) -> Scrape:
    """The first page on which `condition` holds."""
    deadline = time.monotonic() + WATCHDOG_SECONDS
    while True:
        page = Scrape(url)
        if condition(page):
            return page
        assert time.monotonic() < deadline, f"the page never came to be as awaited:\n{page.text}"
        time.sleep(0.05)
