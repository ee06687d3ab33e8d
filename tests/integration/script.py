"""What a scripted run does, second by second: data for tests/integration/emitter.py."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

STEPS_PER_VERSION = 2
SAMPLES_PER_STEP = 8
GROUP_SIZE = 4
TOKENS_PER_STEP = 256
CAPACITY_RESPONSES = 32
IN_FLIGHT = 16
QUEUED = 8
VERSIONS_PER_ANNEX = 2
"""Validation and checkpoint come with every second version."""

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
_WAVY = ("reward", "policy_loss", "entropy", "kl_behaviour", "kl_reference", "grad_norm", "step")
"""Measured values are never twice the same: these swing by a twentieth from version to version."""


def wave(name: str, value: float, version: int) -> float:
    """The value as a version has it."""
    return value * (1 + 0.05 * math.sin(version)) if name in _WAVY else value


@dataclass(frozen=True, kw_only=True, slots=True)
class Second:
    """What a run does in one second. The defaults are healthy and balanced; a field changed is a fault."""

    publishes: bool = True
    """False: no train step and no sync, as of a trainer that waits."""
    trainer_speaks: bool = True
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
    owing: tuple[str, ...] = ("0", "1")
    """Those that the trainer gave the weights to."""
    stuck: tuple[str, ...] = ()
    """Those that go on with the version they had when they were first stuck."""
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
    unaccounted: int = 0
    """Samples that were fed and of which nobody knows."""
    reported: Mapping[str, float] = field(default_factory=dict)
    """What the trainer says that it computed itself."""
    checkpoints: bool = True
    dropped_records: int = 0
    """Control spans that the trainer's buffer gave up: their seqs never come."""
    clock_seconds: float = 0.0
    """How far the trainer's clock is ahead."""


HEALTHY = Second()
