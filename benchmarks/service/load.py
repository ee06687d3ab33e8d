"""What a run says, as request bodies: the steps, syncs and windows of versions, and the live gauges."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from runtime.telemetry import schema
from runtime.telemetry.partial import Partial
from tests.wire import Emitter, Plain

DISTRIBUTIONS = (
    "reward",
    "staleness",
    "update_lag",
    "response_length",
    "queue_wait",
    "step",
    "importance_ratio",
)
RATIOS = ("clip_ratio", "exact_match_ratio", "effective_sample_size_ratio", "mfu_ratio")
SCALARS = (
    "policy_loss",
    "entropy",
    "kl_behaviour",
    "kl_reference",
    "grad_norm",
    "learning_rate",
    "tokens_per_second",
)
VALUES = 60
"""Of a train step: distributions, the catalogue's scalars, and the rest of the sender's own."""
STEPS = 4
"""Of a version."""
RESPONSES = 256
"""Of a step."""


def step_values(step: int) -> dict[str, float | Partial]:
    """The values of one step, not those of the step before."""
    part = (step % 97) / 100
    spread = [part + number / RESPONSES for number in range(RESPONSES)]
    values: dict[str, float | Partial] = {name: Partial.of(name, spread) for name in DISTRIBUTIONS}
    values |= dict.fromkeys(RATIOS, part)
    values |= dict.fromkeys(SCALARS, 1.0 + part)
    own = VALUES - len(values)
    return values | {f"actor/layer_{number}": number + part for number in range(own)}


@lru_cache(maxsize=97)
def _attributes(step: int) -> dict[str, Plain]:
    """The same, as the runtime writes them."""
    attributes: dict[str, Plain] = {}
    for name, value in step_values(step).items():
        if isinstance(value, float):
            attributes[schema.METRIC_PREFIX + name] = value
            continue
        parts = (value.count, value.sum, value.min, value.max, value.m2)
        attributes[schema.METRIC_PREFIX + name] = [float(part) for part in parts]
        if value.buckets is not None:
            attributes[schema.BUCKETS_PREFIX + name] = value.buckets
    return attributes


class SimulatedRun:
    """One trainer and its rollouters, as fast as they are asked."""

    def __init__(self, run: str, rollouters: int) -> None:
        self.name = run
        self.trainer = Emitter("", run=run, source=f"{run}/trainer")
        self.slots = [str(slot) for slot in range(rollouters)]
        self.rollouters = [
            Emitter("", run=run, role=schema.ROLLOUTER_ROLE, source=f"{run}/rollouter-{slot}")
            for slot in self.slots
        ]
        self.version = 0
        self._step = 0

    def trainer_body(self, versions: int, steps: int = STEPS) -> bytes:
        """The trainer's next `versions`, each of `steps` steps and the sync."""
        spans = []
        for _ in range(versions):
            self.version += 1
            for place in range(1, steps + 1):
                self._step += 1
                spans.append(
                    self.trainer.train_step(
                        self.version,
                        self._step,
                        place,
                        attributes=_attributes(self._step % 97),
                        sample_count=32,
                        trained_sample_count=30,
                        token_count=1800,
                    )
                )
            states = {"waiting_samples": 1.0, "training": 3.0}
            spans.append(self.trainer.weight_sync(self.version, steps, self.slots, states=states))
        return self.trainer.request(*spans).SerializeToString()

    def rollouter_bodies(self, versions: int) -> Iterator[bytes]:
        """What each rollouter says of the trainer's last `versions`."""
        for slot, rollouter in zip(self.slots, self.rollouters, strict=True):
            spans = [
                rollouter.rollouter_window(
                    version,
                    slot,
                    {"generating": 3.0, "paused_staleness": 1.0},
                    capacity_seconds=40.0,
                    busy_capacity_seconds=20.0,
                )
                for version in range(self.version - versions + 1, self.version + 1)
            ]
            yield rollouter.request(*spans).SerializeToString()

    def end_body(self) -> bytes:
        """The end of the run."""
        return self.trainer.request(self.trainer.run_end(self.version)).SerializeToString()

    def live_bodies(self, turn: int) -> Iterator[bytes]:
        """The live gauges and sums of every process; what they say changes with `turn`."""
        for slot, rollouter in zip(self.slots, self.rollouters, strict=True):
            says = {schema.ROLLOUTER: slot}
            yield rollouter.metrics_request(
                *_one_hot(rollouter, schema.GAUGE_ROLLOUTER_STATE, schema.ROLLOUTER_STATES, turn, says),
                rollouter.gauge(schema.GAUGE_ROLLOUTER_PARAM_VERSION, turn, says),
            ).SerializeToString()
        yield self.trainer.metrics_request(
            *_one_hot(self.trainer, schema.GAUGE_TRAINER_STATE, schema.TRAINER_STATES, turn, {})
        ).SerializeToString()


def _one_hot(
    emitter: Emitter, name: str, states: Sequence[str], turn: int, says: Mapping[str, Plain]
) -> list[Metric]:
    now = states[turn % len(states)]
    return [emitter.gauge(name, float(state == now), {**says, schema.STATE: state}) for state in states]
