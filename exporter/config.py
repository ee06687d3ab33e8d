"""The exporter's settings: one record, from defaults, a YAML file and flags, in that order."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from exporter.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class ExporterConfig:
    """What `asyncrl exporter` can be told; each default suits one machine."""

    listen: str = "127.0.0.1:9810"
    """HOST:PORT of /metrics, the health probes and the history; port 0 takes any free one."""
    otlp: str = "127.0.0.1:4318"
    """HOST:PORT of the OTLP/HTTP receiver; not the one of `listen`."""
    data_dir: Path = field(default_factory=lambda: Path("asyncrl-data"))
    """Folder of the journal; made if it is missing, used by one exporter at a time."""
    endpoints_file: Path | None = None
    """Where to write the chosen addresses as JSON {"metrics": URL, "otlp": URL}, once both listen."""
    grace_seconds: float = 15.0
    """How long a version waits for missing records after its weight sync, seconds, 0 or more."""
    finished_run_grace_seconds: float = 900.0
    """How long the series of an ended run stay on the page, seconds, 0 or more."""
    abandon_after_seconds: float = 86_400.0
    """A run not heard from for this long is given up as lost, seconds, above 0."""
    max_body_bytes: int = 64 * 1024 * 1024
    """Largest request body, before and after decompression, bytes, 1024 or more."""
    retention_days: float = 30.0
    """How long the journal keeps an ended run, days, above 0."""
    series_budget: int = 50_000
    """Most series on the page over all runs, 100 or more; what exceeds it is dropped and counted."""
    window_versions: int = 20
    """Fewest versions kept in the version window of each run, 1 or more."""
    window_seconds: float = 300.0
    """Shortest stay of a version in the version window, seconds, 0 or more."""

    def __post_init__(self) -> None:
        addresses = {name: split_address(name, getattr(self, name)) for name in ("listen", "otlp")}
        if addresses["listen"] == addresses["otlp"] and addresses["listen"][1] != 0:
            raise ConfigError(f"listen and otlp must differ, both are {self.listen}; give one another port")
        for name, least in _LEAST.items():
            _require_number(name, getattr(self, name), least)
        for name in _ABOVE_ZERO:
            if _require_number(name, getattr(self, name), 0.0) == 0.0:
                raise ConfigError(f"{name} must be above 0, got 0")


SETTINGS = tuple(setting.name for setting in dataclasses.fields(ExporterConfig))
"""The keys of a configuration file."""

_LEAST: Mapping[str, float | int] = {
    "grace_seconds": 0.0,
    "finished_run_grace_seconds": 0.0,
    "window_seconds": 0.0,
    "max_body_bytes": 1024,
    "series_budget": 100,
    "window_versions": 1,
}
"""Smallest value of each number; an integer here asks for an integer there."""
_ABOVE_ZERO = ("abandon_after_seconds", "retention_days")


def split_address(name: str, address: object) -> tuple[str, int]:
    """`HOST:PORT`, or `[IPV6]:PORT`, as (host, port)."""
    host, _, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise ConfigError(f"{name} must be HOST:PORT with a port in 0..65535, got {address!r}")
    return host, int(port)


def _require_number(name: str, value: object, least: float | int) -> float | int:
    kinds = (int,) if isinstance(least, int) else (int, float)
    word = "an integer" if isinstance(least, int) else "a finite number"
    if isinstance(value, bool) or not isinstance(value, kinds) or not math.isfinite(value) or value < least:
        raise ConfigError(f"{name} must be {word} of {least:g} or more, got {value!r}")
    return value


def load_config(path: Path | None, flags: Mapping[str, Any]) -> ExporterConfig:
    """Defaults, then the YAML mapping in `path`, then `flags`; both name the fields of ExporterConfig."""
    return ExporterConfig(**{**(_read_file(path) if path else {}), **flags})


def _read_file(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"cannot read the configuration file {path}: {_one_line(error)}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must be a mapping of setting to value, got {type(content).__name__}")
    for key in content:
        if key not in SETTINGS:
            raise ConfigError(f"{path}: unknown setting {key!r}; known are {', '.join(SETTINGS)}")
    return {key: _as_path(key, value) for key, value in content.items()}


def _as_path(key: str, value: Any) -> Any:
    if key not in ("data_dir", "endpoints_file"):
        return value
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{key} must be a path, got {value!r}")
    return Path(value)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
