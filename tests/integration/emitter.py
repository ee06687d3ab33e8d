"""A run from a script: a trainer, two rollouters and a queue that speak all of docs/wire.md, a version per second.

run = ScriptedRun("r")
post(exporter.otlp, merge([run.second(), other.second(Second(trainer_state="weight_sync", publishes=False))]))

What a run does is a `Second` of script.py, each may be another: so faults that our runtime does not have can be told.
"""

import math
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from runtime.telemetry import schema
from tests.integration.script import (
    CAPACITY_RESPONSES,
    HEALTHY,
    IN_FLIGHT,
    QUEUED,
    SAMPLES_PER_STEP,
    STEPS_PER_VERSION,
    TOKENS_PER_STEP,
    TRAIN_VALUES,
    VERSIONS_PER_ANNEX,
    Second,
    wave,
)
from tests.wire import Emitter, Plain, post_raw

Requests = tuple[ExportTraceServiceRequest, ExportMetricsServiceRequest]


def merge(said: Iterable[Requests]) -> Requests:
    """What several runs say, in one request per signal."""
    traces, metrics = ExportTraceServiceRequest(), ExportMetricsServiceRequest()
    for of_run in said:
        traces.MergeFrom(of_run[0])
        metrics.MergeFrom(of_run[1])
    return traces, metrics


def post(url: str, requests: Requests) -> None:
    """To the exporter's OTLP listener."""
    for signal, request in zip(("traces", "metrics"), requests, strict=True):
        answer = post_raw(url, request.SerializeToString(), signal=signal)
        assert answer.status == 200, answer


def partial(name: str, values: Sequence[float]) -> Iterator[tuple[str, Plain]]:
    """The attributes of a distribution: the partial of its values, and their counts per bucket."""
    mean = math.fsum(values) / len(values)
    spread = math.fsum((value - mean) ** 2 for value in values)
    yield (
        schema.METRIC_PREFIX + name,
        [float(len(values)), math.fsum(values), min(values), max(values), spread],
    )
    if bounds := schema.BUCKETS.get(name):
        places = Counter(bisect_left(bounds, value) for value in values)
        yield schema.BUCKETS_PREFIX + name, [places[place] for place in range(len(bounds) + 1)]


def value_attributes(values: Mapping[str, Any], version: int) -> dict[str, Plain | None]:
    """The values of a span, scalars as they are."""
    said: dict[str, Plain | None] = {}
    for name, value in values.items():
        if isinstance(value, Sequence):
            said |= dict(partial(name, [wave(name, each, version) for each in value]))
        elif value is not None:
            said[schema.METRIC_PREFIX + name] = wave(name, value, version)
    return said


class ScriptedRun:
    """One life of a run. `second` tells what it did, as the requests that say so."""

    def __init__(
        self, name: str, *, life: int = 1, version: int = 0, resource: Mapping[str, Plain] | None = None
    ) -> None:
        self.name = name
        self.version = version
        self._life = life
        self._steps = version * STEPS_PER_VERSION
        self._started = time.time()
        self._totals: defaultdict[tuple[str, tuple[tuple[str, str], ...]], float] = defaultdict(float)
        said: dict[str, Plain] = {schema.STEPS_PER_VERSION: STEPS_PER_VERSION, schema.ALGORITHM: "grpo"}
        self._resource = said | dict(resource or {})
        self._trainer = self._source(schema.TRAINER, "t")
        self._queue = self._source(schema.QUEUE, "q")
        self._rollouters: dict[str, Emitter] = {}
        self._stuck_at: dict[str, int] = {}

    def begin(self) -> Requests:
        """The weights that training starts from."""
        return _requests(
            [(self._trainer, [self._trainer.weight_sync(self.version, 0, seconds=0.0)])],
            [(self._queue, self._account({}))],
        )

    def second(self, what: Second = HEALTHY) -> Requests:
        """One more version, unless it publishes none, and what everybody measures."""
        for slot in what.rollouters:
            if slot not in self._rollouters:
                self._rollouters[slot] = self._source(schema.ROLLOUTER_ROLE, f"r{slot}")
        self._stuck_at = {slot: self._stuck_at.get(slot, self.version) for slot in what.stuck}
        self._trainer.seq += what.dropped_records
        spans: list[tuple[Emitter, list[Span]]] = []
        if what.publishes:
            self.version += 1
            spans = [(self._trainer, self._train(what))]
            spans += [(self._rollouters[slot], self._generate(slot, what)) for slot in what.rollouters]
        metrics = [
            *([(self._trainer, self._trainer_metrics(what))] if what.trainer_speaks else []),
            (self._queue, self._account({**self._consumed(what), **what.outcomes}, what.unaccounted)),
            *((self._rollouters[slot], self._rollouter_metrics(slot, what)) for slot in what.rollouters),
        ]
        return _requests(spans, metrics)

    def end(self, status: str = "completed") -> Requests:
        """Everybody ends, the trainer last, and the queue's account is closed."""
        sources = [*self._rollouters.values(), self._queue, self._trainer]
        account = self._account({"unused_at_end": IN_FLIGHT + QUEUED}, waiting=False)
        return _requests(
            [(source, [source.run_end(self.version, status)]) for source in sources], [(self._queue, account)]
        )

    # ---- what a sender does wrong

    def late_steps(self, count: int) -> Requests:
        """Steps of a version that was sealed long ago."""
        steps = range(self._steps + 1_000_000, self._steps + 1_000_000 + count)
        return _requests([(self._trainer, [self._trainer.train_step(1, step) for step in steps])], [])

    def nameless_step(self) -> Requests:
        """A train step that does not say which."""
        return _requests([(self._trainer, [self._trainer.span("train_step", self.version + 1)])], [])

    def backward_sync(self) -> Requests:
        """A publication of a version that was published before."""
        return _requests([(self._trainer, [self._trainer.weight_sync(self.version - 1, 0)])], [])

    # ---- spans

    def _train(self, what: Second) -> list[Span]:
        """The steps of a version, its sync, and the annexes of the one before."""
        trainer, version = self._trainer, self.version
        trainer.now = time.time() - 1.0 + what.clock_seconds
        values = value_attributes({**TRAIN_VALUES, **what.values}, version)
        spans = []
        for step_in_window in range(1, STEPS_PER_VERSION + 1):
            self._steps += 1
            spans.append(
                trainer.train_step(
                    version,
                    self._steps,
                    step_in_window,
                    sample_count=SAMPLES_PER_STEP,
                    trained_sample_count=round(SAMPLES_PER_STEP * what.trained_share),
                    token_count=round(TOKENS_PER_STEP * what.trained_share),
                    attributes=values,
                    seconds=0.35,
                )
            )
        seconds = sum(what.phase_seconds.values())
        phases = {
            schema.PHASE_SECONDS_PREFIX + phase: time_in for phase, time_in in what.phase_seconds.items()
        }
        reported = {schema.REPORTED_PREFIX + name: value for name, value in what.reported.items()}
        sync = trainer.weight_sync(
            version,
            STEPS_PER_VERSION,
            what.owing,
            attributes={
                schema.SYNC_BYTES: 1 << 20,
                **phases,
                **reported,
                **dict(partial("weight_sync", [seconds])),
            },
            states=what.trainer_seconds,
            seconds=seconds,
        )
        return [*spans, sync, *self._annexes(what)]

    def _annexes(self, what: Second) -> list[Span]:
        trainer, version = self._trainer, self.version
        said: dict[str, Plain | None] = {
            schema.SAMPLE_COUNT: 16,
            **value_attributes({"reward": [0.3, 0.5, 0.7], "exact_match_ratio": 0.5}, version),
        }
        spans = [trainer.span("generated_cohort", version - 1, said, seconds=0.0)]
        if what.checkpoints and version % VERSIONS_PER_ANNEX == 0:
            spans.append(trainer.span("validation", version, said, seconds=0.0))
            size: dict[str, Plain | None] = {schema.CHECKPOINT_BYTES: 1 << 20}
            spans.append(trainer.span("checkpoint", version, size, seconds=0.0))
        return spans

    def _generate(self, slot: str, what: Second) -> list[Span]:
        """The rollouter's window of the version, and one response of it in detail."""
        rollouter = self._rollouters[slot]
        rollouter.now = time.time() - 1.0
        capacity = CAPACITY_RESPONSES * sum(what.rollouter_seconds.values())
        values = {"generation": [0.1, 0.2, 0.3], "generated_tokens_per_second": TOKENS_PER_STEP}
        window = rollouter.rollouter_window(
            self.version,
            slot,
            what.rollouter_seconds,
            capacity_seconds=capacity,
            busy_capacity_seconds=capacity * what.utilization,
            attributes=value_attributes(values, self.version),
            seconds=1.0,
        )
        response: dict[str, Plain | None] = {
            schema.SAMPLE_ID: f"{self.version}-{slot}",
            schema.RESPONSE_INDEX: 0,
            schema.PARAM_VERSION_MIN: self.version - 1,
            schema.PARAM_VERSION_MAX: self.version - 1,
            schema.TOKENS: 6,
            schema.REWARD_VALUE: 0.5,
            schema.FINISH_REASON: "stop",
        }
        return [window, rollouter.span("rollout", None, response, numbered=False, seconds=0.0)]

    # ---- instruments

    def _trainer_metrics(self, what: Second) -> list[Metric]:
        trainer, at = self._trainer, time.time() + what.clock_seconds
        states = (
            trainer.gauge(
                schema.GAUGE_TRAINER_STATE, float(state == what.trainer_state), {schema.STATE: state}, at=at
            )
            for state in schema.TRAINER_STATES
        )
        spent = what.trainer_seconds if what.publishes else {what.trainer_state: 1.0}
        seconds = (
            self._add(trainer, schema.SUM_TRAINER_STATE_SECONDS, time_in, {schema.STATE: state}, at)
            for state, time_in in spent.items()
        )
        dropped = self._add(
            trainer,
            schema.SUM_TELEMETRY_DROPPED,
            what.dropped_records,
            {schema.DROPPED_KIND: "control"},
            at,
        )
        return [*states, *seconds, dropped]

    def _rollouter_metrics(self, slot: str, what: Second) -> list[Metric]:
        rollouter, label = self._rollouters[slot], {schema.ROLLOUTER: slot}
        states = (
            rollouter.gauge(
                schema.GAUGE_ROLLOUTER_STATE,
                float(state == what.rollouter_state),
                {**label, schema.STATE: state},
            )
            for state in schema.ROLLOUTER_STATES
        )
        spent = what.rollouter_seconds if what.publishes else {what.rollouter_state: 1.0}
        seconds = (
            self._add(rollouter, schema.SUM_ROLLOUTER_STATE_SECONDS, time_in, {**label, schema.STATE: state})
            for state, time_in in spent.items()
        )
        decoding = CAPACITY_RESPONSES * what.utilization
        gauges = {
            schema.GAUGE_ROLLOUTER_DECODING: decoding if what.rollouter_state == "generating" else 0.0,
            schema.GAUGE_ROLLOUTER_CAPACITY: CAPACITY_RESPONSES,
            schema.GAUGE_ROLLOUTER_PARAM_VERSION: self._stuck_at.get(slot, self.version),
        }
        generates = what.rollouter_state in schema.ROLLOUTER_ACTIVE_STATES
        tokens = self._add(rollouter, schema.SUM_TOKENS_GENERATED, TOKENS_PER_STEP * generates, label)
        live = (rollouter.gauge(name, value, label) for name, value in gauges.items())
        return [*states, *seconds, *live, tokens]

    def _consumed(self, what: Second) -> dict[str, int]:
        consumed = STEPS_PER_VERSION * SAMPLES_PER_STEP if what.publishes else 0
        trained = round(consumed * what.trained_share)
        return {"trained": trained, "filtered_zero_variance": consumed - trained}

    def _account(
        self, outcomes: Mapping[str, int], unaccounted: int = 0, *, waiting: bool = True
    ) -> list[Metric]:
        """The sample account, which travels in one request: fed is the sum of all else."""
        queue = self._queue
        ended = {**dict.fromkeys(schema.OUTCOMES, 0), **outcomes}
        samples = [
            self._add(queue, schema.SUM_SAMPLES, count, {schema.OUTCOME: outcome})
            for outcome, count in ended.items()
        ]
        over = sum(total for (name, _), total in self._totals.items() if name == schema.SUM_SAMPLES)
        in_flight, queued = (IN_FLIGHT, QUEUED) if waiting else (0, 0)
        fed = over + in_flight + queued + unaccounted
        sums = {
            schema.SUM_FED: fed,
            schema.SUM_GENERATED: fed - in_flight,
            schema.SUM_REISSUED: 0,
            schema.SUM_DUPLICATE_RESULTS: 0,
        }
        gauges = {
            schema.GAUGE_IN_FLIGHT: in_flight,
            schema.GAUGE_QUEUED: queued,
            schema.GAUGE_QUEUE_CAPACITY: 48,
            schema.GAUGE_QUEUE_OLDEST_AGE: 0.3,
            schema.GAUGE_BUDGET_USED: in_flight + queued,
            schema.GAUGE_BUDGET_LIMIT: 48,
        }
        return [
            *samples,
            *(queue.sum(name, total, start=self._started) for name, total in sums.items()),
            *(queue.gauge(name, value) for name, value in gauges.items()),
        ]

    def _add(
        self, source: Emitter, name: str, more: float, labels: Mapping[str, str], at: float | None = None
    ) -> Metric:
        """The next point of a cumulative sum."""
        key = (name, tuple(labels.items()))
        self._totals[key] += more
        return source.sum(name, self._totals[key], labels, start=self._started, at=at)

    def _source(self, role: str, short: str) -> Emitter:
        source = f"{self.name}-{short}-{self._life}"
        return Emitter(
            "", run=self.name, role=role, source=source, attempt=self._life, resource=self._resource
        )


def _requests(
    spans: Sequence[tuple[Emitter, list[Span]]], metrics: Sequence[tuple[Emitter, list[Metric]]]
) -> Requests:
    traces, points = ExportTraceServiceRequest(), ExportMetricsServiceRequest()
    for source, said in spans:
        traces.MergeFrom(source.request(*said))
    for source, measured in metrics:
        points.MergeFrom(source.metrics_request(*measured))
    return traces, points
