"""The exporter's settings: one record. `exporter.settings` says where they come from."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from exporter.errors import ConfigError
from exporter.upstream import check_base_url


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
    journal_mode: str = "wal"
    """`wal`, or `rollback` for a data directory on a network file system, where SQLite's shared memory is not safe."""
    push: str = ""
    """Base URL of an OTLP/HTTP receiver that gets every version (`/v1/metrics` is appended); empty: no push.
    Only with it are the variables OTEL_EXPORTER_OTLP_* read, for headers, certificates, compression, timeout."""
    web_config: Path | None = None
    """Web config file of `listen`: TLS, credentials, headers. Read again when it changes."""
    otlp_web_config: Path | None = None
    """Web config file of `otlp`; may be the same."""
    insecure: bool = False
    """Whether a listener may be open to other machines without asking who they are."""
    max_connections: int = 1024
    """Connections of each listener, 16 or more; the one that has been silent longest makes room for the next."""
    forward_spans: str = ""
    """Base URL of an OTLP/HTTP receiver that gets every span as it came (`/v1/traces` is appended); empty: none.
    Like `push` in all else."""
    log_format: str = "text"
    """`text` (key=value) or `json`, one line per event on stderr."""

    def __post_init__(self) -> None:
        addresses = {name: split_address(name, getattr(self, name)) for name in ("listen", "otlp")}
        if addresses["listen"] == addresses["otlp"] and addresses["listen"][1] != 0:
            raise ConfigError(f"listen and otlp must differ, both are {self.listen}; give one another port")
        for name, least in _LEAST.items():
            _require_number(name, getattr(self, name), least)
        for name in _ABOVE_ZERO:
            if _require_number(name, getattr(self, name), 0.0) == 0.0:
                raise ConfigError(f"{name} must be above 0, got 0")
        if not isinstance(self.insecure, bool):
            raise ConfigError(f"insecure must be true or false, got {self.insecure!r}")
        for name in ("push", "forward_spans"):
            if url := getattr(self, name):
                check_base_url(name, url, own=addresses.values())
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise ConfigError(f"{name} must be {' or '.join(choices)}, got {getattr(self, name)!r}")


_LEAST: Mapping[str, float | int] = {
    "grace_seconds": 0.0,
    "finished_run_grace_seconds": 0.0,
    "window_seconds": 0.0,
    "max_body_bytes": 1024,
    "series_budget": 100,
    "max_connections": 16,
    "window_versions": 1,
}
"""Smallest value of each number; an integer here asks for an integer there."""
_ABOVE_ZERO = ("abandon_after_seconds", "retention_days")
CHOICES: Final = {"journal_mode": ("wal", "rollback"), "log_format": ("text", "json")}
"""The words that a setting may be."""


def split_address(name: str, address: object) -> tuple[str, int]:
    """`HOST:PORT`, or `[IPV6]:PORT`, as (host, port)."""
    host, _, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise ConfigError(f"{name} must be HOST:PORT with a port in 0..65535, got {address!r}")
    if host == "*":  # which the resolver takes for loopback
        raise ConfigError(f"{name} must name a host, got {address!r}; all addresses are 0.0.0.0 or [::]")
    return host, int(port)


def _require_number(name: str, value: object, least: float | int) -> float | int:
    kinds = (int,) if isinstance(least, int) else (int, float)
    word = "an integer" if isinstance(least, int) else "a finite number"
    if isinstance(value, bool) or not isinstance(value, kinds) or not math.isfinite(value) or value < least:
        raise ConfigError(f"{name} must be {word} of {least:g} or more, got {value!r}")
    return value
