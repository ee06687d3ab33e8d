"""What telemetry needs to know: where to send, how much to hold, and who speaks."""

import os
from dataclasses import dataclass
from urllib.parse import urlsplit

from runtime.telemetry import schema


@dataclass(frozen=True, kw_only=True, slots=True)
class TelemetryConfig:
    """Where telemetry goes, how much of it, and what may wait in memory."""

    endpoints: tuple[str, ...] = ()
    """Base URLs of OTLP/HTTP receivers, e.g. `http://127.0.0.1:4318`; each gets everything. Empty: no telemetry."""
    token_file: str = ""
    """File that holds a bearer token for them, read at each request, so that it may change; empty: none sent.
    This path and those below are absolute, and looked for on the machine of each process that sends."""
    ca_file: str = ""
    """PEM file of the authorities that may have signed their certificates; empty: the usual ones."""
    client_cert_file: str = ""
    """PEM file of the certificate to show them, with `client_key_file`; empty: none shown."""
    client_key_file: str = ""
    """PEM file of that certificate's private key."""
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
    flush_interval_seconds: float = 1.0
    """Spans wait at most this long for company, > 0."""
    metrics_interval_seconds: float = 1.0
    """Between two collections of gauges and sums, > 0."""
    request_timeout_seconds: float = 10.0
    """Of a request's connect and of each read, > 0."""
    exit_timeout_seconds: float = 5.0
    """How long a normal exit of the process waits for what is unsent, >= 0."""

    def __post_init__(self) -> None:
        for endpoint in self.endpoints:
            _check_endpoint(endpoint)
        self._check_files()
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

    def _check_files(self) -> None:
        for name in ("token_file", "ca_file", "client_cert_file", "client_key_file"):
            path = getattr(self, name)
            if path and not os.path.isabs(path):
                raise ValueError(f"{name} must be an absolute path, got {path!r}")
        if bool(self.client_cert_file) != bool(self.client_key_file):
            raise ValueError("client_cert_file and client_key_file go together, got one of them")


def _check_endpoint(endpoint: str) -> None:
    parts = urlsplit(endpoint)
    if "@" in parts.netloc:  # what is set here is written to config.yaml
        raise ValueError("endpoints must hold no user or password; put a token into token_file")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
        raise ValueError(
            f"endpoints must be base URLs like 'http://127.0.0.1:4318', without /v1/traces; got {endpoint!r}"
        )


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
