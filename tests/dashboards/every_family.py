"""Two runs that between them make the exporter publish every family, sent one version after the other.

ours     two rollouters, annexes of each version, a resume, and a mistake of every kind
foreign  a trainer that reports what it computed itself, and nothing else

runs = EveryFamily(otlp_url)
for version in range(1, 10): runs.send(version)
"""

import itertools
import math
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric as Instrument
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from exporter import catalog
from runtime.telemetry import schema
from tests.wire import Emitter, Plain

OURS, FOREIGN = "ours", "foreign"
SLOTS = ("0", "1")
STEPS = 2
"""Train steps of a version."""
RESUMED_AT = 6
"""The version after which `ours` goes on in another attempt."""
MISTAKEN = 4
"""The version whose records are wrong in every way."""
SPAN_SECONDS = 0.02
"""Short, so that versions that are sent in a hurry do not end in the future."""
REPORTED = 0.25
"""Every value that the foreign trainer reports."""
SPREAD = 8
"""Values of each distribution that a span brings."""


def values_of(cohort: catalog.Cohort, at: int) -> dict[str, Plain]:
    """What a span says of every metric of its cohort: right values, others for each `at`."""
    said: dict[str, Plain] = {}
    for metric in catalog.METRICS:
        if cohort not in metric.cohort:
            continue
        if metric.statistic == "distribution":
            said |= _partial(metric, [_value(metric, at + part) for part in range(SPREAD)])
        else:
            said[schema.METRIC_PREFIX + metric.name] = _value(metric, at)
    return said


def _value(metric: catalog.Metric, at: int) -> float:
    swing = math.sin(0.7 * at)
    if metric.signed:
        return 0.5 * swing
    return 0.5 + 0.3 * swing if metric.high is not None else 2.0 + 1.5 * swing


def _partial(metric: catalog.Metric, values: Sequence[float]) -> dict[str, Plain]:
    total = math.fsum(values)
    mean = total / len(values)
    m2 = math.fsum((value - mean) ** 2 for value in values)
    bounds = metric.buckets or ()
    counts = [0] * (len(bounds) + 1)
    for value in values:
        counts[bisect_left(bounds, value)] += 1
    return {
        schema.METRIC_PREFIX + metric.name: [float(len(values)), total, min(values), max(values), m2],
        schema.BUCKETS_PREFIX + metric.name: counts,
    }


def reported_values() -> dict[str, Plain]:
    """What a foreign trainer may have computed itself: every latest gauge."""
    names = [name.removeprefix(catalog.PREFIX) for name in catalog.VERSIONED]
    return {f"{schema.REPORTED_PREFIX}{name}": REPORTED for name in names}


class EveryFamily:
    """`send(version)` sends what both runs have to say of their version, from 1 on in steps of one."""

    def __init__(self, otlp_url: str) -> None:
        self._url = otlp_url
        self._steps = itertools.count(1)
        self._resume(attempt=1, version=0)
        resource: dict[str, Plain] = {schema.SERVICE_NAME: "verl"}
        self._foreign = Emitter(otlp_url, run=FOREIGN, source="verl-0", resource=resource)
        self._foreign.post(self._foreign.weight_sync(0, 0, seconds=SPAN_SECONDS))

    def send(self, version: int) -> None:
        if version == RESUMED_AT + 1:
            self._resume(attempt=2, version=RESUMED_AT)
        self._send_live(version)
        now = time.time()
        for slot, rollouter in self._rollouters.items():
            rollouter.now = now
            rollouter.post(self._window(rollouter, version, slot))
        self._trainer.now = self._foreign.now = now
        self._trainer.post(*self._version(version))
        if version == MISTAKEN:
            self._make_mistakes()
        foreign = self._foreign
        foreign.post(
            foreign.train_step(version, version, seconds=SPAN_SECONDS),
            foreign.weight_sync(version, 1, attributes=reported_values(), seconds=SPAN_SECONDS),
        )

    def _resume(self, *, attempt: int, version: int) -> None:
        """Every process of `ours` begins, with the weights of `version`."""
        self._started = time.time()
        resource: dict[str, Plain] = {
            schema.ALGORITHM: "grpo",
            schema.MODEL: "tiny",
            schema.STEPS_PER_VERSION: STEPS,
            schema.STALENESS_LIMIT: 4,
        }

        def begin(role: str, name: str) -> Emitter:
            source = f"{name}-{attempt}"
            return Emitter(self._url, run=OURS, role=role, source=source, attempt=attempt, resource=resource)

        self._trainer = begin(schema.TRAINER, "trainer")
        self._rollouters = {slot: begin(schema.ROLLOUTER_ROLE, f"rollouter-{slot}") for slot in SLOTS}
        self._queue = begin(schema.QUEUE, "queue")
        self._trainer.post(self._trainer.weight_sync(version, 0, seconds=SPAN_SECONDS))

    def _version(self, version: int) -> Iterator[Span]:
        """The trainer's records of it, its annexes included."""
        trainer = self._trainer
        mistakes: dict[str, Plain] = {
            f"{schema.METRIC_PREFIX}entropy": math.nan,
            f"{schema.METRIC_PREFIX}clip_ratio": 2.0,
            f"{schema.METRIC_PREFIX}policy_loss": [1.0, 2.0],
        }
        own: dict[str, Plain] = {f"{schema.METRIC_PREFIX}prompt_tokens": 12.0}
        for number in range(1, STEPS + 1):
            said = values_of("trainer", version + number) | own
            yield trainer.train_step(
                version,
                next(self._steps),
                number,
                sample_count=8,
                trained_sample_count=6,
                token_count=960,
                attributes=said | mistakes if version == MISTAKEN else said,
                seconds=SPAN_SECONDS,
            )
        phases = dict(zip(schema.SYNC_PHASES, (0.004, 0.01, 0.006), strict=True))
        yield trainer.weight_sync(
            version,
            STEPS,
            SLOTS,
            attributes={schema.PHASE_SECONDS_PREFIX + phase: seconds for phase, seconds in phases.items()},
            states={"waiting_samples": 0.1, "assembling": 0.02, "training": 0.2, "weight_sync": 0.02},
            seconds=SPAN_SECONDS,
        )
        for name in ("generated_cohort", "validation", "checkpoint"):
            counts: dict[str, Plain] = {schema.SAMPLE_COUNT: 16, schema.CHECKPOINT_BYTES: 4096}
            yield trainer.span(name, version, values_of("annex", version) | counts, seconds=SPAN_SECONDS)

    def _window(self, rollouter: Emitter, version: int, slot: str) -> Span:
        busy = 0.9 if slot == "0" else 0.3
        return rollouter.rollouter_window(
            version,
            slot,
            {"generating": 0.3 * busy, "paused_staleness": 0.3 * (1 - busy), "weight_sync": 0.02},
            capacity_seconds=3.2,
            busy_capacity_seconds=3.2 * busy * 0.8,
            attributes=values_of("rollouter", version),
            seconds=SPAN_SECONDS,
        )

    def _send_live(self, version: int) -> None:
        """The live gauges and the sums of every process."""
        life = time.time() - self._started
        for slot, rollouter in self._rollouters.items():
            labels: dict[str, Plain] = {schema.ROLLOUTER: slot}
            rollouter.post_metrics(
                rollouter.gauge(schema.GAUGE_ROLLOUTER_DECODING, 5 + version % 3, labels),
                rollouter.gauge(schema.GAUGE_ROLLOUTER_CAPACITY, 8, labels),
                rollouter.gauge(schema.GAUGE_ROLLOUTER_PARAM_VERSION, version - 1, labels),
                rollouter.sum(schema.SUM_TOKENS_GENERATED, 900.0 * life, labels, start=self._started),
                *self._states(rollouter, schema.ROLLOUTER_STATES, version, labels),
            )
        trainer = self._trainer
        dropped: dict[str, Plain] = {schema.DROPPED_KIND: "detail"}
        trainer.post_metrics(
            *self._states(trainer, schema.TRAINER_STATES, version, {}),
            trainer.sum(schema.SUM_TELEMETRY_DROPPED, 3.0 * life, dropped, start=self._started),
        )
        self._queue.post_metrics(*self._account(version))

    def _states(
        self, process: Emitter, states: Sequence[str], version: int, labels: dict[str, Plain]
    ) -> Iterator[Instrument]:
        """All of them take turns."""
        rollouter = schema.ROLLOUTER in labels
        live = schema.GAUGE_ROLLOUTER_STATE if rollouter else schema.GAUGE_TRAINER_STATE
        seconds = schema.SUM_ROLLOUTER_STATE_SECONDS if rollouter else schema.SUM_TRAINER_STATE_SECONDS
        life = time.time() - self._started
        current = states[version % len(states)]
        yield process.gauge(live, 1, labels | {schema.STATE: current})
        for state in states:
            yield process.sum(
                seconds, life / len(states), labels | {schema.STATE: state}, start=self._started
            )

    def _account(self, version: int) -> Iterator[Instrument]:
        """An account that balances: of each outcome, a sample per version."""
        queue, start = self._queue, self._started
        in_flight, queued = 6, 4
        for outcome in schema.OUTCOMES:
            yield queue.sum(schema.SUM_SAMPLES, version, {schema.OUTCOME: outcome}, start=start)
        fed = version * len(schema.OUTCOMES) + in_flight + queued
        for name, count in (
            (schema.SUM_FED, fed),
            (schema.SUM_GENERATED, fed - in_flight),
            (schema.SUM_REISSUED, version),
            (schema.SUM_DUPLICATE_RESULTS, version),
        ):
            yield queue.sum(name, count, start=start)
        for name, value in (
            (schema.GAUGE_IN_FLIGHT, in_flight),
            (schema.GAUGE_QUEUED, queued),
            (schema.GAUGE_QUEUE_CAPACITY, 32),
            (schema.GAUGE_QUEUE_OLDEST_AGE, 1.5),
            (schema.GAUGE_BUDGET_USED, in_flight + queued),
            (schema.GAUGE_BUDGET_LIMIT, 32),
        ):
            yield queue.gauge(name, value)

    def _make_mistakes(self) -> None:
        """A late step, a step told twice, a span nobody knows, a version that is out already, a record that gets
        lost, one of no run."""
        trainer = self._trainer
        again = trainer.train_step(MISTAKEN + 1, 1, seconds=SPAN_SECONDS)
        trainer.post(
            trainer.train_step(1, 10_000, seconds=SPAN_SECONDS),
            again,
            trainer.span("daydream", MISTAKEN, numbered=False, seconds=SPAN_SECONDS),
            trainer.weight_sync(1, 0, seconds=SPAN_SECONDS),
        )
        trainer.seq += 1
        nobody = Emitter(self._url, run="", source="nobody")
        nobody.post(nobody.weight_sync(1, 1, seconds=SPAN_SECONDS))
