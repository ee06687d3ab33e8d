"""What telemetry needs to know: where to send, how much to hold, and who speaks."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from runtime.telemetry import schema


@dataclass(frozen=True, kw_only=True, slots=True)
class TelemetryConfig:
    """Where telemetry goes, how much of it, and what may wait in memory."""

    endpoints: tuple[str, ...] = ()
    """Base URLs of OTLP/HTTP receivers, e.g. `http://127.0.0.1:4318`; each gets everything. Empty: no telemetry.
    A URL may carry credentials (`https://user:password@host`)."""
    detail_sampling: float = 0.1
    """Share of traces of which detail spans are kept, 0..1. Control spans are never sampled."""
    buffer_spans: int = 20_000
    """Spans held per endpoint while it does not answer, >= 1."""
    buffer_bytes: int = 32 * 2**20
    """Bytes of encoded spans held per endpoint, >= 1."""
    batch_spans: int = 512
    """Spans per request at most, >= 1."""
    batch_bytes: int = 4 * 2**20
    """Bytes of spans per request at most (one larger span still goes, alone), >= 1."""
    flush_interval_seconds: float = 0.25
    """Spans wait at most this long for company, > 0."""
    metrics_interval_seconds: float = 1.0
    """Between two collections of gauges and sums, > 0."""
    request_timeout_seconds: float = 10.0
    """Of a request's connect and of each read, > 0."""
    exit_timeout_seconds: float = 5.0
    """How long a normal exit of the process waits for what is unsent, >= 0."""

    def __post_init__(self) -> None:
        for endpoint in self.endpoints:
            parts = urlsplit(endpoint)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
                raise ValueError(
                    "endpoints must be base URLs like 'http://127.0.0.1:4318', without /v1/traces;"
                    f" got {endpoint!r}"
                )
        if not 0 <= self.detail_sampling <= 1:
            raise ValueError(f"detail_sampling must be in 0..1, got {self.detail_sampling}")
        for name in ("buffer_spans", "buffer_bytes", "batch_spans", "batch_bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("flush_interval_seconds", "metrics_interval_seconds", "request_timeout_seconds"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, got {getattr(self, name)}")
        if not self.exit_timeout_seconds >= 0:
            raise ValueError(f"exit_timeout_seconds must not be negative, got {self.exit_timeout_seconds}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """The source: what every request says about its sender."""

    run_id: str
    role: str
    """One of `schema.ROLES`."""
    attempt: int = 1
    """Which life of the run, >= 1."""
    algorithm: str = "grpo"
    model_name: str = ""
    steps_per_version: int | None = None
    """N, if it is fixed."""
    staleness_limit: int | None = None
    """The hard bound of staleness in versions, if there is one."""
    rollouter: str | None = None
    """The slot, of a rollouter."""

    def __post_init__(self) -> None:
        if not self.run_id:
            raise ValueError("run_id must not be empty")
        if self.role not in schema.ROLES:
            raise ValueError(f"role must be one of {schema.ROLES}, got {self.role!r}")

    def resource_attributes(self, source_id: str) -> dict[str, str | int]:
        attributes: dict[str, str | int | None] = {
            schema.SERVICE_NAME: "asyncrl",
            schema.SOURCE_ID: source_id,
            schema.ROLE: self.role,
            schema.RUN_ID: self.run_id,
            schema.ATTEMPT: self.attempt,
            schema.SCHEMA: schema.SCHEMA_VERSION,
            schema.ALGORITHM: self.algorithm or None,
            schema.MODEL: self.model_name or None,
            schema.STEPS_PER_VERSION: self.steps_per_version,
            schema.STALENESS_LIMIT: self.staleness_limit,
            schema.ROLLOUTER: self.rollouter,
        }
        return {name: value for name, value in attributes.items() if value is not None}
