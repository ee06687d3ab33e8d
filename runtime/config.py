"""The settings of a run: defaults, then a YAML file, then `--set key=value`, then flags. One frozen record.

Nested settings are written as sections in YAML and with dots on the command line: `--set engine.temperature=0.7`.
"""

import dataclasses
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import yaml

from runtime.account import ticket_budget
from runtime.engine import EngineConfig
from runtime.errors import RuntimeConfigError
from runtime.grpo import GrpoConfig
from runtime.learner import OptimizerConfig
from runtime.model import ModelConfig
from runtime.telemetry.config import Identity, TelemetryConfig

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^:\s/]+):(?P<port>\d{1,5})")


def require(ok: bool, key: str, accepted: str, value: object) -> None:
    """Raise RuntimeConfigError unless `ok`: `versions must be at least 1, got 0`."""
    if not ok:
        raise RuntimeConfigError(f"{key} must be {accepted}, got {value!r}")


@dataclass(frozen=True, kw_only=True, slots=True)
class ExporterAddresses:
    """The exporter that the run starts, or shares if a healthy one listens there already."""

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Resources:
    """What each actor reserves of the Ray cluster. CUDA is used when present, reserved or not; CPUs never are."""

    trainer_gpus: float = 0.0
    """GPUs, at least 0."""
    rollouter_gpus: float = 0.0
    """GPUs of each rollouter, at least 0."""

    def __post_init__(self) -> None:
        for key in ("trainer_gpus", "rollouter_gpus"):
            value = getattr(self, key)
            require(math.isfinite(value) and value >= 0, key, "at least 0", value)


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

    @property
    def ticket_budget(self) -> int:
        """Tickets that may be acquired between two syncs."""
        return ticket_budget(
            required_samples=self.required_samples,
            staleness_threshold=self.staleness_threshold,
            steps_per_version=self.steps_per_version,
        )

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
}


def load_config(
    *,
    file: Path | None = None,
    assignments: Sequence[str] = (),
    flags: Mapping[str, str | None] | None = None,
) -> RunConfig:
    """The settings of `file`, overridden by `assignments` ("dotted.key=value"), overridden by `flags`.

    Raises RuntimeConfigError, whose one line names the key, the value and what is accepted.
    """
    settings = _read_yaml(file) if file else {}
    given = [_assignment(text) for text in assignments]
    given += [(key, value) for key, value in (flags or {}).items() if value is not None]
    for key, value in given:
        _assign(settings, key, value)
    for path, known in _unknown_keys(settings, RunConfig):
        raise RuntimeConfigError(f"{path} is not a setting; known here are {', '.join(known)}")
    settings.setdefault("run_id", time.strftime("%Y%m%d-%H%M%S-") + uuid4().hex[:4])
    config = _convert(settings)
    if "total_steps" not in settings.get("optimizer", {}):
        # The learning rate's decay ends with the run unless it is told otherwise.
        steps = config.versions * config.steps_per_version
        optimizer = dataclasses.replace(config.optimizer, total_steps=steps)
        config = dataclasses.replace(config, optimizer=optimizer)
    return config


def dump_config(config: RunConfig) -> str:
    """The fully resolved settings as YAML that `load_config` reads back to an equal record."""
    return yaml.safe_dump(msgspec.to_builtins(config), sort_keys=False)


def _read_yaml(file: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise RuntimeConfigError(
            f"--config must be a readable YAML file, got {str(file)!r}: {reason}"
        ) from error
    if not isinstance(content, dict | None):
        raise RuntimeConfigError(
            f"--config must hold a mapping of setting to value, got {type(content).__name__}"
        )
    return content or {}


def _assignment(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise RuntimeConfigError(f"--set must be key=value, got {text!r}")
    try:
        parsed = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise RuntimeConfigError(f"{key} must be a YAML value, got {value!r}") from error
    # Scalars stay text: their field decides what `1e-3` or `007` is.
    return key, parsed if isinstance(parsed, list | dict) else value


def _assign(settings: dict[str, Any], key: str, value: Any) -> None:
    *sections, name = key.split(".")
    for section in sections:
        settings = settings.setdefault(section, {})
        if not isinstance(settings, dict):
            raise RuntimeConfigError(f"{key} is not a setting; {section} is a single value")
    settings[name] = value


def _unknown_keys(
    settings: Mapping[str, Any], record: type, prefix: str = ""
) -> Iterator[tuple[str, list[str]]]:
    fields = {entry.name: entry for entry in dataclasses.fields(record)}
    for key, value in settings.items():
        if key not in fields:
            yield f"{prefix}{key}", list(fields)
        elif dataclasses.is_dataclass(kind := fields[key].type) and isinstance(value, dict):
            assert isinstance(kind, type)
            yield from _unknown_keys(value, kind, f"{key}.")


def _convert(settings: dict[str, Any]) -> RunConfig:
    try:
        return msgspec.convert(settings, RunConfig, strict=False)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$")
        path = path.strip("`").removeprefix(".")
        if isinstance(error.__cause__, ValueError):
            # The record itself refused; its message starts with its own key.
            raise RuntimeConfigError(f"{path}.{reason}" if path else reason) from error
        value: Any = settings
        for key in path.split("[")[0].split("."):
            value = value[key]
        accepted = reason.partition("`")[2].partition("`")[0]
        raise RuntimeConfigError(f"{path} must be {_NOUNS.get(accepted, accepted)}, got {value!r}") from error


_NOUNS = {
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "str": "a text",
    "array": "a list",
    "object": "a section of settings",
}
