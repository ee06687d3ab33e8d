"""What an exporter has to show, recomputed from the requests that it acknowledged. Imports nothing of the project:
docs/wire.md and docs/architecture.md read a second time, for the records that the crash loop sends.

truth = Acknowledged()
truth.take("traces", body)      one request, in the order of acknowledgement within its source
truth.history("r")              the rows of /api/v1/runs/r/versions
truth.samples("r")              (name, labels) -> value of what /metrics has to show of the run

A grace that runs out is no part of it: what is not complete is open, until a newer attempt begins.
"""

import math
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import NumberDataPoint

_NS = 1_000_000_000
Series = tuple[str, frozenset[tuple[str, str]]]
_STATES, _METRIC, _BUCKETS = "asyncrl.state_seconds.", "asyncrl.metric.", "asyncrl.buckets."
_ACTIVE = {"trainer": ("assembling", "training"), "rollouter": ("generating", "draining")}
_SUMS = {
    "asyncrl.samples.fed": "asyncrl_samples_fed_total",
    "asyncrl.samples": "asyncrl_samples_total",
    "asyncrl.rollouter.state_seconds": "asyncrl_rollouter_state_seconds_total",
}
_INCOMPLETE = ("missing_steps", "missing_sync", "missing_rollouter", "new_attempt")


@dataclass
class Window:
    steps: list[dict[str, Any]] = field(default_factory=list)
    sync: dict[str, Any] | None = None
    rollouters: list[dict[str, Any]] = field(default_factory=list)
    validation: dict[str, Any] | None = None


@dataclass
class Life:
    run: str
    role: str
    seqs: set[int] = field(default_factory=set)
    held: dict[str, float] = field(default_factory=dict)
    """Of a queue: what it has in flight and queued."""


@dataclass
class RunTruth:
    attempts: dict[int, dict[int, Window]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(Window))
    )
    published: dict[int, int] = field(default_factory=dict)
    sums: dict[tuple[Series, str, int], tuple[int, float]] = field(default_factory=dict)
    """(series, source, start) -> (time, value) of its newest point."""
    queues: list[Life] = field(default_factory=list)
    steps: int = 0
    tokens: int = 0
    buckets: list[int] = field(default_factory=list)


class Acknowledged:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.runs: dict[str, RunTruth] = defaultdict(RunTruth)
        self.lives: dict[str, Life] = {}
        """By source id."""
        self._over: dict[tuple[str, int], tuple[list[dict[str, Any]], int]] = {}
        """(run, attempt) that a newer one has replaced -> its rows, and the time of the newest."""

    def take(self, signal: str, body: bytes) -> None:
        """Each request once: who sends it again after no answer hands it over when the answer has come."""
        with self._lock:
            if signal == "traces":
                self._take_spans(ExportTraceServiceRequest.FromString(body))
            else:
                self._take_points(ExportMetricsServiceRequest.FromString(body))

    def _life(self, resource: dict[str, Any]) -> Life:
        life = Life(resource["rl.run.id"], resource["asyncrl.role"])
        return self.lives.setdefault(resource["asyncrl.source.id"], life)

    def _take_spans(self, request: ExportTraceServiceRequest) -> None:
        for resource_spans in request.resource_spans:
            resource = _attributes(resource_spans.resource.attributes)
            life = self._life(resource)
            for scope_spans in resource_spans.scope_spans:
                for span in scope_spans.spans:
                    said = _attributes(span.attributes) | {"end": span.end_time_unix_nano}
                    life.seqs.add(said["asyncrl.seq"])
                    attempt = resource["asyncrl.run.attempt"]
                    self._take_record(self.runs[life.run], attempt, span.name, said)

    def _take_record(self, run: RunTruth, attempt: int, name: str, said: dict[str, Any]) -> None:
        version = said["asyncrl.param_version"]
        windows = run.attempts[attempt]
        if name == "asyncrl.train_step":
            windows[version].steps.append(said)
            run.steps += 1
            run.tokens += said["asyncrl.token_count"]
            counts = said[f"{_BUCKETS}reward"]
            run.buckets = [a + b for a, b in zip(run.buckets or [0] * len(counts), counts, strict=True)]
        elif name == "asyncrl.weight_sync":
            run.published[attempt] = max(version, run.published.get(attempt, 0))
            if said["asyncrl.steps_in_window"]:
                windows[version].sync = said
        elif name == "asyncrl.rollouter_window":
            windows[version].rollouters.append(said)
        else:
            windows[version].validation = said

    def _take_points(self, request: ExportMetricsServiceRequest) -> None:
        for resource_metrics in request.resource_metrics:
            resource = _attributes(resource_metrics.resource.attributes)
            life, run = self._life(resource), self.runs[resource["rl.run.id"]]
            if life.role == "queue" and life not in run.queues:
                run.queues.append(life)
            for scope_metrics in resource_metrics.scope_metrics:
                for metric in scope_metrics.metrics:
                    if metric.HasField("gauge"):
                        life.held[metric.name] = _number(metric.gauge.data_points[0])
                    for point in metric.sum.data_points:
                        key = (_series(metric.name, life.run, point), resource["asyncrl.source.id"])
                        newest = (point.time_unix_nano, _number(point))
                        at = (*key, point.start_time_unix_nano)
                        run.sums[at] = max(newest, run.sums.get(at, newest))

    # ---- what has to be shown

    def history(self, name: str) -> list[dict[str, Any]]:
        """Every sealed version, ascending by attempt and version."""
        run = self.runs[name]
        rows: list[dict[str, Any]] = []
        newest_ns = 0
        for number in sorted(run.attempts):
            if (name, number) in self._over:
                of_attempt, newest_ns = self._over[name, number]
            else:
                replaced = number < max(run.attempts)
                of_attempt, newest_ns = _seal(number, run.attempts[number], newest_ns, replaced=replaced)
                if replaced:
                    self._over[name, number] = of_attempt, newest_ns
            rows += of_attempt
        return rows

    def samples(self, name: str) -> dict[Series, float]:
        """What the page shows of the run, but for the version window."""
        run, rows = self.runs[name], self.history(name)
        current = max(run.attempts)
        shown: dict[Series, float] = defaultdict(float)

        def show(family: str, value: float, **labels: str) -> None:
            shown[family, frozenset({("run", name), *labels.items()})] += value

        show("asyncrl_run_attempt", current)
        if current in run.published:
            show("asyncrl_param_version", run.published[current])
        show("asyncrl_train_steps_total", run.steps)
        show("asyncrl_tokens_total", run.tokens, kind="trained")
        show("asyncrl_versions_sealed_total", sum(row["complete"] for row in rows), complete="true")
        show("asyncrl_versions_sealed_total", sum(not row["complete"] for row in rows), complete="false")
        for reason in _INCOMPLETE:
            said = sum(reason in row["reasons"] for row in rows)
            show("asyncrl_versions_incomplete_total", said, reason=reason)
        for (series, _source, _start), (_time, value) in run.sums.items():
            shown[series] += value
        for number, queue in enumerate(run.queues):
            held = sum(queue.held.values())
            if number < len(run.queues) - 1:
                show("asyncrl_samples_total", held, outcome="dropped_rollback")
            else:
                show("asyncrl_samples_in_flight", queue.held["asyncrl.samples.in_flight"])
                show("asyncrl_samples_queued", queue.held["asyncrl.samples.queued"])
        show("asyncrl_attempts_inferred_total", 0)
        for reason in ("sealed", "attempt_over"):
            show("asyncrl_late_records_total", 0, reason=reason)
        for role in ("trainer", "rollouter", "queue"):
            show("asyncrl_lost_records_total", 0, role=role)
        return dict(shown)


def _seal(
    attempt: int, windows: dict[int, Window], newest_ns: int, *, replaced: bool
) -> tuple[list[dict[str, Any]], int]:
    """The sealed versions of one attempt, which follow that of time `newest_ns`, and the time of the last."""
    rows: list[dict[str, Any]] = []
    left_open = False
    for version, window in sorted(windows.items()):
        if not window.steps and window.sync is None:
            continue
        lacks = _lacks(version, window)
        left_open |= bool(lacks)  # versions are sealed in ascending order
        if left_open and not replaced:
            break
        reasons = sorted([*lacks, "new_attempt"]) if lacks else []
        end = window.sync["end"] if window.sync else max(step["end"] for step in window.steps)
        newest_ns = max(end, newest_ns + 1_000_000)
        rows.append(_row(attempt, version, window, reasons, newest_ns))
    return rows, newest_ns


def _lacks(version: int, window: Window) -> list[str]:
    if window.sync is None:
        return ["missing_sync"]
    lacks = []
    if len(window.steps) < window.sync["asyncrl.steps_in_window"]:
        lacks.append("missing_steps")
    if set(window.sync["asyncrl.rollouters"]) - {each["asyncrl.rollouter"] for each in window.rollouters}:
        lacks.append("missing_rollouter")
    return lacks


def _row(attempt: int, version: int, window: Window, reasons: list[str], at_ns: int) -> dict[str, Any]:
    parts = [step[f"{_METRIC}reward"] for step in window.steps]
    weights = [step["asyncrl.token_count"] for step in window.steps]
    losses = [Fraction(step[f"{_METRIC}policy_loss"]) for step in window.steps]
    metrics: dict[str, Any] = {}
    if window.steps:
        metrics["policy_loss"] = float(
            sum(loss * weight for loss, weight in zip(losses, weights, strict=True)) / sum(weights)
        )
        metrics["reward"] = _merged(parts)
    sync = [window.sync] if window.sync else []
    slots = sorted({each["asyncrl.rollouter"] for each in window.rollouters})
    return {
        "attempt": attempt,
        "param_version": version,
        "complete": not reasons,
        "reasons": reasons,
        "timestamp": at_ns / _NS,
        "train_steps": len(window.steps),
        "sample_count": sum(step["asyncrl.sample_count"] for step in window.steps),
        "metrics": metrics,
        "trainer": _times("trainer", sync),
        "rollouters": {
            slot: _times("rollouter", [e for e in window.rollouters if e["asyncrl.rollouter"] == slot])
            for slot in slots
        },
        "reported": {},
        "annexes": {"validation": _validation(window.validation)} if window.validation else {},
    }


def _validation(said: dict[str, Any]) -> dict[str, Any]:
    return {
        "timestamp": said["end"] / _NS,
        "sample_count": said["asyncrl.sample_count"],
        "metrics": {"exact_match_ratio": said[f"{_METRIC}exact_match_ratio"]},
    }


def _merged(parts: list[list[float]]) -> dict[str, float]:
    """[count, sum, min, max, m2] of all values together; exact for the numbers that the loop sends."""
    count = sum(part[0] for part in parts)
    mean = sum(Fraction(part[1]) for part in parts) / Fraction(count)
    m2 = sum(Fraction(p[4]) + Fraction(p[0]) * (Fraction(p[1]) / Fraction(p[0]) - mean) ** 2 for p in parts)
    return {
        "count": count,
        "mean": float(mean),
        "min": min(part[2] for part in parts),
        "max": max(part[3] for part in parts),
        "std": math.sqrt(float(m2) / count),
    }


def _times(role: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    seconds: dict[str, Fraction] = defaultdict(Fraction)
    for record in records:
        for name, value in record.items():
            if name.startswith(_STATES):
                seconds[name.removeprefix(_STATES)] += Fraction(value)
    total = sum(seconds.values())
    active = sum(seconds[state] for state in _ACTIVE[role] if state in seconds)
    said = {"state_seconds": {state: float(value) for state, value in seconds.items()}}
    return said | ({"idle_ratio": float((total - active) / total)} if total else {})


def _series(metric: str, run: str, point: NumberDataPoint) -> Series:
    labels = {key.removeprefix("asyncrl."): value for key, value in _attributes(point.attributes).items()}
    return _SUMS[metric], frozenset({("run", run), *labels.items()})


def _number(point: NumberDataPoint) -> float:
    return float(point.as_int) if point.HasField("as_int") else point.as_double


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs if isinstance(pair, KeyValue)}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    return getattr(value, str(kind))
