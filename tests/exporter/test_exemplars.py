"""Exemplars: which train step brought the largest value of a bucket, as OpenMetrics says it."""

import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from runtime.telemetry import schema
from tests.exporter.conftest import StartedExporter, StartExporter
from tests.page import check_page
from tests.prometheus import run_prometheus
from tests.wire import Emitter, Scrape

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
BOUNDS = schema.BUCKETS["staleness"]
"""0, 1, 2, 3, ... versions."""


@dataclass(frozen=True)
class Exemplar:
    bound: str
    trace_id: str
    span_id: str
    value: float
    timestamp: float


def exemplars(exporter: StartedExporter) -> list[Exemplar]:
    page = Scrape(exporter.metrics, accept=OPENMETRICS)
    check_page(page.text, page.content_type)
    return [
        Exemplar(
            labels["le"],
            exemplar.labels["trace_id"],
            exemplar.labels["span_id"],
            exemplar.value,
            round(float(exemplar.timestamp or 0.0), 5),
        )
        for name, labels, exemplar in page.exemplars
        if name == "asyncrl_staleness_versions_bucket"
    ]


def staleness_step(trainer: Emitter, step: int, values: list[float]) -> Span:
    """A train step whose responses had these staleness values, with buckets."""
    mean = sum(values) / len(values)
    m2 = sum((value - mean) ** 2 for value in values)
    counts = [0] * (len(BOUNDS) + 1)
    for value in values:
        counts[next((i for i, bound in enumerate(BOUNDS) if value <= bound), len(BOUNDS))] += 1
    partial = [len(values), sum(values), min(values), max(values), m2]
    return trainer.train_step(
        1,
        step,
        values={"staleness": partial},
        attributes={"asyncrl.buckets.staleness": counts},
    )


def exemplar_of(span: Span, value: float) -> Exemplar:
    bound = str(float(next(bound for bound in BOUNDS if value <= bound)))
    timestamp = round(span.end_time_unix_nano / 1e9, 5)
    return Exemplar(bound, span.trace_id.hex(), span.span_id.hex(), value, timestamp)


def test_the_exemplar_of_a_bucket_is_the_newest_step_whose_largest_value_lies_in_it(
    exporter: StartedExporter,
) -> None:
    trainer = Emitter(exporter.otlp)
    first = staleness_step(trainer, 1, [0.0, 1.0, 2.0])
    second = staleness_step(trainer, 2, [1.0, 1.0])
    third = staleness_step(trainer, 3, [0.0, 2.0])
    for span in (first, third, second):  # the order of arrival decides nothing
        trainer.post(span)
    assert exemplars(exporter) == [
        exemplar_of(second, 1.0),
        exemplar_of(third, 2.0),
    ]
    trainer.post(first)  # a duplicate changes nothing
    assert exemplars(exporter) == [
        exemplar_of(second, 1.0),
        exemplar_of(third, 2.0),
    ]


def test_exemplars_are_in_openmetrics_only(exporter: StartedExporter) -> None:
    trainer = Emitter(exporter.otlp)
    trainer.post(staleness_step(trainer, 1, [0.0, 3.0]))
    assert len(exemplars(exporter)) == 1
    text = Scrape(exporter.metrics)
    assert text.content_type.startswith("text/plain")
    assert "trace_id" not in text.text
    check_page(text.text, text.content_type)


@pytest.mark.parametrize(
    ("trace_id", "span_id"),
    [
        (b"t" * 100, b"s" * 8),
        (b"t" * 16, b"s" * 100),
        (b"", b""),
        (bytes(16), bytes(8)),
        (b"t" * 8, b"s" * 16),
    ],
)
def test_c38_ids_that_are_none_cost_the_exemplar_never_the_observation(
    exporter: StartedExporter, trace_id: bytes, span_id: bytes
) -> None:
    trainer = Emitter(exporter.otlp)
    span = staleness_step(trainer, 1, [0.0, 3.0])
    span.trace_id, span.span_id = trace_id, span_id
    answer = trainer.post(span)
    assert (answer.status, answer.rejected) == (200, 0), answer.reason
    assert exemplars(exporter) == []
    page = Scrape(exporter.metrics)
    assert page.value("asyncrl_staleness_versions_count", run="r") == 2
    assert page.value("asyncrl_staleness_versions_bucket", run="r", le="2.0") == 1
    assert page.value("asyncrl_train_steps_total", run="r") == 1


def test_exemplars_are_there_after_a_restart(start_exporter: StartExporter) -> None:
    exporter = start_exporter()
    trainer = Emitter(exporter.otlp)
    trainer.post(staleness_step(trainer, 1, [0.0, 3.0]))
    before = exemplars(exporter)
    exporter.stop()
    exporter = start_exporter(data_dir=exporter.data_dir)
    assert exemplars(exporter) == before != []


def test_a_prometheus_stores_what_leads_to_the_span(exporter: StartedExporter, tmp_path: Path) -> None:
    trainer = Emitter(exporter.otlp)
    span = staleness_step(trainer, 1, [0.0, 3.0])
    trainer.post(span)
    query = {"query": "asyncrl_staleness_versions_bucket", "start": "0", "end": str(time.time() + 3600)}
    with run_prometheus(tmp_path, [exporter.metrics], interval_seconds=0.5) as prometheus:
        prometheus.wait_for("asyncrl_staleness_versions_bucket")
        answer = requests.get(f"{prometheus.url}/api/v1/query_exemplars", params=query, timeout=60).json()
    ((exemplar,),) = [series["exemplars"] for series in answer["data"]]
    assert exemplar["labels"] == {"trace_id": span.trace_id.hex(), "span_id": span.span_id.hex()}
    assert (float(exemplar["value"]), answer["data"][0]["seriesLabels"]["le"]) == (3.0, "3.0")
