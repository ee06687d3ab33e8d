"""No `OTEL_*` variable changes what arrives: a child with all of them set against us, seen from outside."""

import os
import subprocess
import sys
from pathlib import Path

from runtime.telemetry import schema
from tests.otlp_sink import OtlpSink

ROOT = Path(__file__).parents[3]

CHILD = """
import sys
from opentelemetry import trace
from runtime.telemetry import schema
from runtime.telemetry.config import Identity, TelemetryConfig
from runtime.telemetry.emitter import Telemetry

telemetry = Telemetry(
    TelemetryConfig(endpoints=(sys.argv[1],), detail_sampling=1.0), Identity(run_id="run-1", role="trainer")
)
telemetry.observe_sum(schema.SUM_FED, lambda: [(5.0, {})])
links = [
    telemetry.detail(schema.ROLLOUT, start_ns=1, end_ns=2, attributes={"a": 1, "b": "x" * 1000}) for _ in range(9)
]
for number in range(1, 21):
    telemetry.control(
        schema.TRAIN_STEP, param_version=1, start_ns=1, end_ns=2,
        attributes={schema.STEP: number, "note": "y" * 1000},
        values={f"value_{i}": float(i) for i in range(200)},
        links=links,
    )
assert telemetry.flush(60.0)
assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider), "the global provider is not ours"
"""

HOSTILE = {
    "OTEL_SDK_DISABLED": "true",
    "OTEL_TRACES_SAMPLER": "traceidratio",
    "OTEL_TRACES_SAMPLER_ARG": "0",
    "OTEL_TRACES_EXPORTER": "none",
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "1",
    "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": "1",
    "OTEL_ATTRIBUTE_COUNT_LIMIT": "1",
    "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "1",
    "OTEL_SPAN_LINK_COUNT_LIMIT": "1",
    "OTEL_SPAN_EVENT_COUNT_LIMIT": "1",
    "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT": "1",
    "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT": "1",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1/v1/traces",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://127.0.0.1:1/v1/metrics",
    "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer stolen,content-type=text/plain",
    "OTEL_EXPORTER_OTLP_COMPRESSION": "deflate",
    "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
    "OTEL_EXPORTER_OTLP_TIMEOUT": "0.001",
    "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "DELTA",
    "OTEL_RESOURCE_ATTRIBUTES": "rl.run.id=stolen,service.name=stolen,extra=1",
    "OTEL_SERVICE_NAME": "stolen",
    "OTEL_EXPERIMENTAL_RESOURCE_DETECTORS": "process,os,host",
    "OTEL_BSP_SCHEDULE_DELAY": "1000000",
    "OTEL_BSP_MAX_QUEUE_SIZE": "1",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "1",
    "OTEL_METRICS_EXPORTER": "none",
    "OTEL_METRICS_EXEMPLAR_FILTER": "always_on",
    "OTEL_METRIC_EXPORT_INTERVAL": "1000000",
    "OTEL_METRIC_EXPORT_TIMEOUT": "1",
    "OTEL_PYTHON_ID_GENERATOR": "random",
    "OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED": "true",
    "HTTP_PROXY": "http://127.0.0.1:1",
    "NO_PROXY": "",
}


def test_no_variable_weakens_spans_or_metrics(sink: OtlpSink) -> None:
    child = subprocess.run(
        [sys.executable, "-c", CHILD, sink.url],
        cwd=ROOT,
        env=os.environ | HOSTILE,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    steps = sink.named(schema.TRAIN_STEP)
    assert [span.attributes[schema.SEQ] for span in steps] == list(range(1, 21))
    for span in steps:
        assert span.attributes["note"] == "y" * 1000
        assert sum(name.startswith(schema.METRIC_PREFIX) for name in span.attributes) == 200
        assert len(span.message.links) == 9
        assert span.message.dropped_attributes_count == span.message.dropped_links_count == 0
    assert len(sink.named(schema.ROLLOUT)) == 9
    for span in sink.spans:
        assert (span.resource[schema.RUN_ID], span.resource[schema.SERVICE_NAME]) == ("run-1", "asyncrl")
        assert set(span.resource) <= {
            schema.SERVICE_NAME,
            schema.SOURCE_ID,
            schema.ROLE,
            schema.RUN_ID,
            schema.ATTEMPT,
            schema.SCHEMA,
            schema.ALGORITHM,
        }
    assert {(point.name, point.temporality) for point in sink.points} == {
        (schema.SUM_FED, 2),
        (schema.SUM_TELEMETRY_DROPPED, 2),
    }
