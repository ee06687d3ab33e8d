"""The settings of a run, one frozen record, and its sections: what each means, its unit and what is accepted.

Plain data, so that whoever has settings to read need not import what they are for.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from runtime.account import ticket_budget
from runtime.errors import RuntimeConfigError
from runtime.telemetry.config import Identity, TelemetryConfig

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^:\s/]+):(?P<port>\d{1,5})")


def require(ok: bool, key: str, accepted: str, value: object) -> None:
    """Raise RuntimeConfigError unless `ok`: `versions must be at least 1, got 0`."""
    if not ok:
        raise RuntimeConfigError(f"{key} must be {accepted}, got {value!r}")


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig:
    """Which policy is trained."""

    path: str = ""
    """Directory of a Hugging Face causal LM with its tokenizer; empty: the embedded 84 k-parameter Llama."""

    def __post_init__(self) -> None:
        if self.path and (missing := _missing_in_model(Path(self.path))):
            raise RuntimeConfigError(
                f"path must be a Hugging Face model directory, got {self.path!r}, which has no {missing}; save model "
                "and tokenizer there with save_pretrained(), or leave it empty for the embedded model"
            )


def _missing_in_model(folder: Path) -> str:
    """What every loadable model has and this folder has not; empty if it has all."""
    config_file = folder / "config.json"
    if not config_file.is_file():
        return "config.json"
    try:
        content = json.loads(config_file.read_bytes())
    except ValueError:
        return "JSON in its config.json"
    if not isinstance(content, dict) or "model_type" not in content:
        return "model_type in its config.json"
    has_tokenizer = any(any(folder.glob(name)) for name in ("tokenizer*", "vocab*", "*.model"))
    return "" if has_tokenizer else "tokenizer (tokenizer.json, tokenizer_config.json)"


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineConfig:
    """How many responses decode together, and how each of them is sampled."""

    capacity_responses: int = 256
    """Responses that decode together, at least 1."""
    max_new_tokens: int = 7
    """Tokens after which a response ends with `length`, at least 1."""
    temperature: float = 1.0
    """Divides the logits before sampling, above 0 for training; 0 is greedy."""

    def __post_init__(self) -> None:
        for key in ("capacity_responses", "max_new_tokens"):
            value = getattr(self, key)
            require(value >= 1, key, "at least 1", value)
        require(0 <= self.temperature < math.inf, "temperature", "0 (greedy) or more", self.temperature)


@dataclass(frozen=True, kw_only=True, slots=True)
class GrpoConfig:
    """The trust region around the behaviour policy, and the entropy bonus."""

    clip_low: float = 0.2
    """The importance ratio is clipped below 1 - clip_low, 0..1."""
    clip_high: float = 0.28
    """The importance ratio is clipped above 1 + clip_high, at least 0."""
    entropy_coefficient: float = 0.01
    """Weight of the entropy bonus in the loss, at least 0."""

    def __post_init__(self) -> None:
        require(0 <= self.clip_low <= 1, "clip_low", "in 0..1", self.clip_low)
        for key in ("clip_high", "entropy_coefficient"):
            value = getattr(self, key)
            require(value >= 0, key, "at least 0", value)


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimizerConfig:
    """AdamW; the learning rate warms up linearly, then falls linearly to `final_fraction` of its peak."""

    learning_rate: float = 1e-3
    """Peak, above 0. 2e-3 is unstable on the default task."""
    warmup_steps: int = 5
    """Steps until the peak, at least 0."""
    total_steps: int = 320
    """Steps of the whole run, at least 1; later steps keep the final rate."""
    final_fraction: float = 0.1
    """Of the peak, 0..1. A constant rate (1) wobbles by 0.1 to 0.2 exact match late in the default run."""
    betas: tuple[float, float] = (0.9, 0.95)
    """Decay of the first and second moment, each at least 0 and below 1."""
    weight_decay: float = 0.0
    """At least 0."""
    max_grad_norm: float = 1.0
    """The gradient's norm is clipped to it, above 0."""

    def __post_init__(self) -> None:
        for key in ("learning_rate", "total_steps", "max_grad_norm"):
            value = getattr(self, key)
            require(0 < value < math.inf, key, "above 0", value)
        for key in ("warmup_steps", "weight_decay"):
            value = getattr(self, key)
            require(0 <= value < math.inf, key, "at least 0", value)
        require(0 <= self.final_fraction <= 1, "final_fraction", "in 0..1", self.final_fraction)
        require(all(0 <= beta < 1 for beta in self.betas), "betas", "at least 0 and below 1", self.betas)

    def learning_rate_at(self, step: int) -> float:
        """The rate of step 1, 2, 3, ...: with the defaults 2e-4 at step 1 and 1e-4 at step 320."""
        warmup = min(1.0, step / self.warmup_steps) if self.warmup_steps else 1.0
        decay = 1.0 - (1.0 - self.final_fraction) * min(1.0, step / self.total_steps)
        return self.learning_rate * min(warmup, decay)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExporterAddresses:
    """The exporter that the run starts, or shares if a healthy one listens there already.

    One of its own is for this machine: where others scrape, start `asyncrl exporter` with credentials first.
    """

    listen: str = "127.0.0.1:9810"
    """HOST:PORT of /metrics; port 0 takes any free one, written to `endpoints.json`."""
    otlp: str = "127.0.0.1:4318"
    """HOST:PORT of the OTLP receiver; port 0 takes any free one."""

    def __post_init__(self) -> None:
        for key, address in (("listen", self.listen), ("otlp", self.otlp)):
            match = ADDRESS.fullmatch(address)
            require(
                bool(match and int(match["port"]) <= 65535), key, "HOST:PORT with a port in 0..65535", address
            )
        require(
            self.listen != self.otlp or self.listen.endswith(":0"),
            "otlp",
            "another address than listen",
            self.otlp,
        )


_OWN_RESOURCES = ("CPU", "GPU", "memory", "object_store_memory")


@dataclass(frozen=True, kw_only=True, slots=True)
class Resources:
    """What each actor reserves of the Ray cluster. CUDA is used when present, reserved or not; CPUs never are."""

    trainer_gpus: float = 0.0
    """Share of one GPU, 0..1: an actor computes on one."""
    rollouter_gpus: float = 0.0
    """Share of one GPU for each rollouter, 0..1. With 0, all actors share the first GPU that they see."""
    trainer_node: str = ""
    """Custom resource of the nodes that trainer and sample queue may live on, e.g. `asyncrl_trainer`; empty: any."""
    rollouter_node: str = ""
    """Custom resource of which each rollouter takes one: a node has as many as may live there; empty: any node."""

    def __post_init__(self) -> None:
        for key in ("trainer_gpus", "rollouter_gpus"):
            value = getattr(self, key)
            require(0 <= value <= 1, key, "in 0..1", value)
        for key in ("trainer_node", "rollouter_node"):
            value = getattr(self, key)
            require(value not in _OWN_RESOURCES, key, "a custom resource, not one of Ray's own", value)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunConfig:
    """Every setting of a run, resolved."""

    run_id: str
    """Name of the run and of its folder: letters, digits, `.`, `_`, `-`, at most 64."""
    runs_dir: str = "runs"
    """Where the folder of the run is made."""
    versions: int = 80
    """Parameter versions to publish, at least 1. A finite environment may end the run before."""
    steps_per_version: int = 4
    """Train steps between two publications, at least 1."""
    seed: int = 0
    """Of weights, prompts and sampling, 0 .. 2^31 - 1."""
    rollouters: int = 1
    """Rollouter actors, at least 1."""
    environment: str = "runtime.sort_task:SortTask"
    """`module:Class` with the methods of runtime.environment.Environment, called as Class(seed=seed)."""
    required_samples: int = 32
    """Samples (prompts) that one train step consumes, at least 1."""
    group_size: int = 8
    """Responses to each prompt, at least 2: advantages are relative to the group."""
    staleness_threshold: float = 0.5
    """Tickets beyond the steps of one version, as a share of them, at least 0. 0.5: half a version ahead."""
    partial_rollout: bool = True
    """New weights interrupt responses between two tokens; false: no new prompt until the old have finished."""
    queue_capacity: int = 0
    """Samples in flight and queued together, at least required_samples; 0: as many as the budget of tickets."""
    failed_samples_in_a_row: int = 32
    """A rollouter gives up, and the run fails, after so many samples without one that could be scored, at least 1."""
    start_timeout_seconds: float = 600.0
    """Until version 0 is out, at least 1: an actor imports torch from a cold disk, or waits for a node to come up."""
    model: ModelConfig = field(default_factory=ModelConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    grpo: GrpoConfig = field(default_factory=GrpoConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    exporter: ExporterAddresses = field(default_factory=ExporterAddresses)
    telemetry: TelemetryConfig = field(default_factory=TelemetryConfig)
    """With endpoints given, the run starts no exporter of its own."""
    resources: Resources = field(default_factory=Resources)

    def __post_init__(self) -> None:
        require(
            bool(RUN_ID.fullmatch(self.run_id)),
            "run_id",
            "1 to 64 letters, digits, '.', '_' or '-'",
            self.run_id,
        )
        for key, least in _LEAST.items():
            value = getattr(self, key)
            require(value >= least and math.isfinite(value), key, f"at least {least}", value)
        require(self.seed < 2**31, "seed", "below 2147483648", self.seed)
        require(":" in self.environment, "environment", '"module:Class"', self.environment)
        require(
            self.queue_capacity == 0 or self.queue_capacity >= self.required_samples,
            "queue_capacity",
            f"0 or at least required_samples ({self.required_samples})",
            self.queue_capacity,
        )
        require(
            self.engine.capacity_responses >= self.group_size,
            "engine.capacity_responses",
            f"at least group_size ({self.group_size})",
            self.engine.capacity_responses,
        )

        require(
            self.engine.temperature > 0,
            "engine.temperature",
            "above 0 for training, or all responses to a prompt would be the same",
            self.engine.temperature,
        )

    @property
    def ticket_budget(self) -> int:
        """Tickets that may be acquired between two syncs."""
        return ticket_budget(
            required_samples=self.required_samples,
            staleness_threshold=self.staleness_threshold,
            steps_per_version=self.steps_per_version,
        )

    @property
    def gpus(self) -> float:
        """That all actors together reserve."""
        return self.resources.trainer_gpus + self.rollouters * self.resources.rollouter_gpus

    @property
    def folder(self) -> Path:
        return Path(self.runs_dir) / self.run_id

    def identity(self, role: str, *, rollouter: str | None = None) -> Identity:
        """Who an actor of this run is, for its telemetry."""
        return Identity(
            run_id=self.run_id,
            role=role,
            model_name=Path(self.model.path).name or "embedded-llama",
            steps_per_version=self.steps_per_version,
            rollouter=rollouter,
        )


_LEAST: Mapping[str, int] = {
    "versions": 1,
    "steps_per_version": 1,
    "seed": 0,
    "rollouters": 1,
    "required_samples": 1,
    "group_size": 2,
    "staleness_threshold": 0,
    "queue_capacity": 0,
    "failed_samples_in_a_row": 1,
    "start_timeout_seconds": 1,
}
