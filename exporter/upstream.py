"""An OTLP/HTTP receiver that the exporter sends to: one POST, what its answer means, and when to try again.

answer            `delivered`             the receiver has it, but for what a partial success rejects
                  `refused` 400, 413      it will never take this request; a smaller one it may
                  otherwise               later: no answer, 429, 5xx, wrong credentials, wrong path
"""

import gzip
import math
import os
import random
import socket
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, Literal, Self
from urllib.parse import unquote, urlsplit

import requests
import urllib3
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from exporter.errors import ConfigError

Signal = Literal["traces", "metrics"]

FIRST_BACKOFF_SECONDS: Final = 0.5
LAST_BACKOFF_SECONDS: Final = 30.0
LONGEST_RETRY_AFTER_SECONDS: Final = 3600.0
_PREFIX: Final = "OTEL_EXPORTER_OTLP_"
_USUAL_TIMEOUT_MILLISECONDS: Final = "10000"


@dataclass(frozen=True, kw_only=True, slots=True)
class UpstreamConfig:
    """Where one signal goes, and how: the address is a flag's, the rest is OpenTelemetry's environment."""

    url: str
    """The whole URL, the path of the signal included."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_seconds: float = 10.0
    """For the connection, and for each read of the answer; above 0."""
    compressed: bool = False
    certificate: str = ""
    """File of the authorities that the receiver's certificate is checked against; empty: the usual ones."""
    client_certificate: str = ""
    client_key: str = ""

    @classmethod
    def from_environment(cls, signal: Signal, base_url: str, environ: Mapping[str, str] = os.environ) -> Self:
        """`base_url` with `/v1/<signal>`, and OTEL_EXPORTER_OTLP_<SIGNAL>_* or else OTEL_EXPORTER_OTLP_*.
        Raises ConfigError."""

        def said(name: str, default: str = "") -> str:
            return environ.get(f"{_PREFIX}{signal.upper()}_{name}") or environ.get(_PREFIX + name) or default

        compression = said("COMPRESSION", "none")
        if compression not in ("gzip", "none"):
            raise ConfigError(f"{_PREFIX}COMPRESSION must be gzip or none, got {compression!r}")
        timeout = said("TIMEOUT", _USUAL_TIMEOUT_MILLISECONDS)
        if not (timeout.isascii() and timeout.isdigit() and 0 < int(timeout) <= 3_600_000):
            raise ConfigError(f"{_PREFIX}TIMEOUT must be milliseconds in 1..3600000, got {timeout!r}")
        if bool(said("CLIENT_CERTIFICATE")) != bool(said("CLIENT_KEY")):
            raise ConfigError(f"{_PREFIX}CLIENT_CERTIFICATE and {_PREFIX}CLIENT_KEY belong together, got one")
        return cls(
            url=f"{base_url.rstrip('/')}/v1/{signal}",
            headers=dict(_header(pair) for pair in said("HEADERS").split(",") if pair.strip()),
            timeout_seconds=int(timeout) / 1000,
            compressed=compression == "gzip",
            certificate=_authorities(said("CERTIFICATE")),
            client_certificate=_file("CLIENT_CERTIFICATE", said("CLIENT_CERTIFICATE")),
            client_key=_file("CLIENT_KEY", said("CLIENT_KEY")),
        )


def check_base_url(name: str, url: object, *, own: Iterable[tuple[str, int]]) -> None:
    """Raises ConfigError for what is no base URL, or is one of our `own` listeners (host, port)."""
    parts = urlsplit("")
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        host, port = parts.hostname or "", parts.port or {"http": 80, "https": 443}[parts.scheme]
    except (ValueError, KeyError):
        host, port = "", 0
    if parts.username is not None or parts.password is not None:
        raise ConfigError(f"{name} must not carry credentials; put them into {_PREFIX}HEADERS")
    if not host or parts.query or parts.fragment:
        raise ConfigError(f"{name} must be http(s)://HOST[:PORT][/PATH], got {url!r}")
    if parts.path.rstrip("/").endswith(("/v1/metrics", "/v1/traces")):
        raise ConfigError(f"{name} is a base URL, /v1/<signal> is appended to it; leave that out of {url!r}")
    for own_host, own_port in own:
        if port == own_port and _is_ours(host, own_host):
            raise ConfigError(f"{name} must not be the exporter's own listener, got {url!r}; name another")


def _is_ours(host: str, own_host: str) -> bool:
    """Whether `host` reaches the listener: an address of this machine that the listener is bound to."""
    try:
        ours, theirs = (
            {str(entry[4][0]) for entry in socket.getaddrinfo(name, None)} for name in (own_host, host)
        )
    except OSError:  # a name that nobody knows yet
        return host == own_host
    return bool(ours & theirs) or (ours <= {"0.0.0.0", "::"} and any(map(_is_of_this_machine, theirs)))


def _is_of_this_machine(address: str) -> bool:
    try:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def _header(pair: str) -> tuple[str, str]:
    """One `name=value` of OTEL_EXPORTER_OTLP_HEADERS, the value percent-encoded."""
    name, equals, value = (part.strip() for part in pair.partition("="))
    if not name or not equals:  # and the value is a credential: it is not repeated here
        raise ConfigError(f"{_PREFIX}HEADERS must be name=value,..., one part has no name or no '='")
    return name, unquote(value)


def _file(name: str, path: str) -> str:
    if path and not os.path.isfile(path):
        raise ConfigError(f"{_PREFIX}{name} must be a file, there is none at {path!r}")
    return path


def _authorities(path: str) -> str:
    try:
        if _file("CERTIFICATE", path):
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except OSError as error:
        raise ConfigError(
            f"{_PREFIX}CERTIFICATE must hold certificates, there are none in {path!r}"
        ) from error
    return path


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What came of one post. Status 0: no answer at all."""

    status: int
    reason: str = ""
    rejected: int = 0
    """Records that a 2xx refused (`partial_success`), never to be sent again."""
    retry_after_seconds: float | None = None

    @property
    def delivered(self) -> bool:
        return 200 <= self.status < 300

    @property
    def refused(self) -> bool:
        return self.status in (400, 413)


class Upstream:
    """The connection kept open to one receiver. For one thread."""

    def __init__(self, signal: Signal, config: UpstreamConfig) -> None:
        self._signal = signal
        self._config = config
        self._session = requests.Session()
        # Credentials come from the environment of OpenTelemetry, never from a .netrc.
        self._session.trust_env = False
        self._session.verify = config.certificate or True
        if config.client_certificate:
            self._session.cert = (config.client_certificate, config.client_key)
        self._session.headers["Content-Type"] = "application/x-protobuf"
        self._session.headers.update(config.headers)
        parts = urlsplit(config.url)
        self.name = f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)
        """Host and port, for people: the URL may carry credentials."""

    def post(self, body: bytes) -> Answer:
        """Blocks for the timeout at most per read. Never raises for what the other side did."""
        headers = {"Content-Encoding": "gzip"} if self._config.compressed else {}
        data = gzip.compress(body, mtime=0) if self._config.compressed else body
        try:
            response = self._session.post(
                self._config.url,
                data=data,
                headers=headers,
                timeout=self._config.timeout_seconds,
                allow_redirects=False,
            )
        # requests lets some errors of urllib3 and of the socket through.
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            return Answer(status=0, reason=f"no answer ({_root_cause(error)!r})")
        if 200 <= response.status_code < 300:
            rejected, reason = _partial_success(self._signal, response.content)
            return Answer(status=response.status_code, rejected=rejected, reason=reason)
        return Answer(
            status=response.status_code,
            reason=f"HTTP {response.status_code}: {response.text[:200]!r}",
            retry_after_seconds=_seconds(response.headers.get("Retry-After")),
        )

    def close(self) -> None:
        self._session.close()


class Backoff:
    """How long to wait after a failure: what the receiver asked for, else exponentially longer, jittered."""

    def __init__(self) -> None:
        self._failures = 0

    def succeeded(self) -> bool:
        """Whether it had failed before."""
        failures, self._failures = self._failures, 0
        return failures > 0

    def failed(self, answer: Answer) -> float:
        """Seconds until the next try."""
        exponential = min(FIRST_BACKOFF_SECONDS * 2.0 ** min(self._failures, 16), LAST_BACKOFF_SECONDS)
        self._failures += 1
        if answer.retry_after_seconds is not None:
            return answer.retry_after_seconds
        return exponential * random.uniform(0.5, 1.0)


def _root_cause(error: BaseException) -> BaseException:
    """What the socket said, without the layers around it and the URL they quote."""
    while error.__context__ is not None:
        error = error.__context__
    return error


def _partial_success(signal: Signal, content: bytes) -> tuple[int, str]:
    try:
        if signal == "traces":
            traces = ExportTraceServiceResponse.FromString(content).partial_success
            return traces.rejected_spans, traces.error_message
        metrics = ExportMetricsServiceResponse.FromString(content).partial_success
        return metrics.rejected_data_points, metrics.error_message
    except DecodeError:  # a receiver that answers 200 with something else took it all
        return 0, ""


def _seconds(retry_after: str | None) -> float | None:
    """The header's seconds or date as a bounded delay."""
    if not retry_after:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            date = parsedate_to_datetime(retry_after)
        except ValueError:
            return None
        if date.tzinfo is None:
            date = date.replace(tzinfo=UTC)
        seconds = (date - datetime.now(UTC)).total_seconds()
    return None if math.isnan(seconds) else min(max(seconds, 0.0), LONGEST_RETRY_AFTER_SECONDS)
