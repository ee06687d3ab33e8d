"""A run from a script: a trainer, two rollouters and a queue that speak all of docs/wire.md, a version per second.

run = ScriptedRun("r")
post([exporter.otlp], run.second(HEALTHY), other.second(replace(HEALTHY, trainer_state="waiting_samples")))

What a run does is a `Second`, and each second may be another: so faults that our runtime does not have can be told.
"""

import math
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from runtime.telemetry import schema
from tests.wire import Emitter, Plain, post_raw

STEPS_PER_VERSION = 2
SAMPLES_PER_STEP = 8
GROUP_SIZE = 4
TOKENS_PER_STEP = 256
CAPACITY_RESPONSES = 32
IN_FLIGHT = 16
QUEUED = 8
VERSIONS_PER_ANNEX = 4
"""Validation and checkpoint come with every fourth version."""

TRAIN_VALUES: Mapping[str, float | Sequence[float]] = {
    "reward": [0.2, 0.4, 0.6, 0.8],
    "exact_match_ratio": 0.5,
    "response_length": [4.0, 5.0, 6.0, 7.0],
    "staleness": [0.0, 0.0, 1.0, 1.0],
    "update_lag": [0.0, 1.0, 2.0, 3.0],
    "response_span": [0.0, 0.0, 0.0, 1.0],
    "queue_wait": [0.05, 0.1, 0.2],
    "advantage": [-1.0, -0.5, 0.5, 1.0],
    "importance_ratio": [0.95, 1.0, 1.05],
    "policy_loss": 0.02,
    "entropy": 1.2,
    "kl_behaviour": 0.0005,
    "kl_reference": 0.01,
    "clip_ratio": 0.02,
    "effective_sample_size_ratio": 0.97,
    "grad_norm": 0.5,
    "learning_rate": 1e-3,
    "step": [0.35],
    "tokens_per_second": TOKENS_PER_STEP / 0.35,
    "mfu_ratio": 0.3,
    "gpu_memory_allocated_bytes": 2e9,
}
"""Of each train step; a list is a distribution."""
WAVY = ("reward", "policy_loss", "entropy", "kl_behaviour", "kl_reference", "grad_norm", "step")
"""Measured values are never twice the same: these swing by a twentieth from version to version."""


def wave(name: str, value: float, version: int) -> float:
    return value * (1 + 0.05 * math.sin(version)) if name in WAVY else value


@dataclass(frozen=True, kw_only=True, slots=True)
class Second:
    """What a run does in one second. The defaults are healthy and balanced."""

    publishes: bool = True
    """False: no train step and no sync, as of a trainer that waits."""
    values: Mapping[str, float | Sequence[float] | None] = field(default_factory=dict)
    """Other values of the train steps; None: not sent."""
    trained_share: float = 1.0
    """Of the consumed samples; the rest is filtered for zero variance."""
    trainer_state: str = "training"
    """At the end of the second, as the live gauge shows it."""
    trainer_seconds: Mapping[str, float] = field(
        default_factory=lambda: {
            "waiting_samples": 0.1,
            "assembling": 0.05,
            "training": 0.75,
            "weight_sync": 0.1,
        }
    )
    phase_seconds: Mapping[str, float] = field(
        default_factory=lambda: {"wait": 0.02, "transfer": 0.05, "load": 0.03}
    )
    """Of the weight sync, which takes their sum."""
    rollouters: tuple[str, ...] = ("0", "1")
    """Those that speak."""
    rollouter_state: str = "generating"
    rollouter_seconds: Mapping[str, float] = field(
        default_factory=lambda: {
            "generating": 0.8,
            "draining": 0.1,
            "weight_sync": 0.05,
            "paused_staleness": 0.05,
        }
    )
    utilization: float = 0.85
    outcomes: Mapping[str, int] = field(default_factory=dict)
    """Samples that ended otherwise than in a step, by outcome."""
    reported: Mapping[str, float] = field(default_factory=dict)
    """What the trainer says that it computed itself."""
    annexes: bool = True
    """Whether validations and checkpoints come."""
    dropped_records: int = 0
    """Control spans that the trainer's buffer gave up: their seqs never come."""
    clock_seconds: float = 0.0
    """How far the trainer's clock is ahead."""


HEALTHY = Second()
Requests = tuple[ExportTraceServiceRequest, ExportMetricsServiceRequest]


def post(urls: Sequence[str], *said: Requests) -> None:
    """What several runs say, in one request per signal to each exporter."""
    traces, metrics = ExportTraceServiceRequest(), ExportMetricsServiceRequest()
    for of_run in said:
        traces.MergeFrom(of_run[0])
        metrics.MergeFrom(of_run[1])
    for url in urls:
        for signal, request in (("traces", traces), ("metrics", metrics)):
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
        self._trainer.seq += what.dropped_records
        spans: list[tuple[Emitter, list[Span]]] = []
        if what.publishes:
            self.version += 1
            spans = [(self._trainer, self._train(what))]
            spans += [(self._rollouters[slot], self._generate(slot, what)) for slot in what.rollouters]
        metrics = [
            (self._trainer, self._trainer_metrics(what)),
            (self._queue, self._account(what.outcomes, trained=self._consumed(what))),
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
            what.rollouters,
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
        if what.annexes and version % VERSIONS_PER_ANNEX == 0:
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
            self._add(trainer, schema.SUM_TRAINER_STATE_SECONDS, time_in, **{schema.STATE: state})
            for state, time_in in spent.items()
        )
        dropped = self._add(
            trainer, schema.SUM_TELEMETRY_DROPPED, what.dropped_records, **{schema.DROPPED_KIND: "control"}
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
            self._add(
                rollouter, schema.SUM_ROLLOUTER_STATE_SECONDS, time_in, **label, **{schema.STATE: state}
            )
            for state, time_in in spent.items()
        )
        decoding = CAPACITY_RESPONSES * what.utilization
        gauges = {
            schema.GAUGE_ROLLOUTER_DECODING: decoding if what.rollouter_state == "generating" else 0.0,
            schema.GAUGE_ROLLOUTER_CAPACITY: CAPACITY_RESPONSES,
            schema.GAUGE_ROLLOUTER_PARAM_VERSION: self.version,
        }
        generates = what.rollouter_state in schema.ROLLOUTER_ACTIVE_STATES
        tokens = self._add(rollouter, schema.SUM_TOKENS_GENERATED, TOKENS_PER_STEP * generates, **label)
        live = (rollouter.gauge(name, value, label) for name, value in gauges.items())
        return [*states, *seconds, *live, tokens]

    def _consumed(self, what: Second) -> dict[str, int]:
        consumed = STEPS_PER_VERSION * SAMPLES_PER_STEP if what.publishes else 0
        trained = round(consumed * what.trained_share)
        return {"trained": trained, "filtered_zero_variance": consumed - trained}

    def _account(
        self, outcomes: Mapping[str, int], *, trained: Mapping[str, int] | None = None, waiting: bool = True
    ) -> list[Metric]:
        """The sample account, which travels in one request: fed is the sum of all else."""
        queue = self._queue
        ended = {**dict.fromkeys(schema.OUTCOMES, 0), **(trained or {}), **outcomes}
        samples = [
            self._add(queue, schema.SUM_SAMPLES, count, **{schema.OUTCOME: outcome})
            for outcome, count in ended.items()
        ]
        over = sum(total for (name, _), total in self._totals.items() if name == schema.SUM_SAMPLES)
        in_flight, queued = (IN_FLIGHT, QUEUED) if waiting else (0, 0)
        fed = over + in_flight + queued
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

    def _add(self, source: Emitter, name: str, more: float, **labels: str) -> Metric:
        """The next point of a cumulative sum."""
        key = (name, tuple(labels.items()))
        self._totals[key] += more
        return source.sum(name, self._totals[key], labels, start=self._started)

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
