"""One POST to an OTLP/HTTP endpoint, and what its answer means."""

import math
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import RemoteDisconnected
from pathlib import Path

import requests
import urllib3
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from runtime.telemetry.config import TelemetryConfig

TRACES = "/v1/traces"
METRICS = "/v1/metrics"
PROTOBUF = "application/x-protobuf"
LONGEST_RETRY_AFTER_SECONDS = 300.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What came of one post. Status 0: no answer at all."""

    status: int
    reason: str = ""
    rejected: int = 0
    """Records that a 200 refused (`partial_success`), never to be sent again."""
    retry_after_seconds: float | None = None

    @property
    def delivered(self) -> bool:
        return 200 <= self.status < 300

    @property
    def too_large(self) -> bool:
        return self.status == 413

    @property
    def later(self) -> bool:
        """Whether the same request may succeed later."""
        # With 401 and 403 the token is being changed, or will be when somebody reads the log.
        return self.status in (0, 401, 403, 408, 429) or self.status >= 500


class Endpoint:
    """A base URL and the connection kept open to it. For one thread."""

    def __init__(self, url: str, config: TelemetryConfig) -> None:
        self.url = url.rstrip("/")
        self._timeout_seconds = config.request_timeout_seconds
        self._token_file = config.token_file
        self._session = requests.Session()
        # The environment's proxies and .netrc are not for telemetry, and cost a file read per request.
        self._session.trust_env = False
        self._session.headers["Content-Type"] = PROTOBUF
        if config.ca_file:
            self._session.verify = config.ca_file
        if config.client_cert_file:
            self._session.cert = (config.client_cert_file, config.client_key_file)

    def post(self, path: str, body: bytes) -> Answer:
        """Blocks for connect and read timeout at most per read. Never raises for what the other side did."""
        try:
            response = self._session.post(
                self.url + path,
                data=body,
                headers=self._authorization(),
                timeout=self._timeout_seconds,
                allow_redirects=False,
            )
        # requests lets some errors of urllib3 and of the socket through.
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, UnicodeError) as error:
            return Answer(status=0, reason=f"no answer ({self._explain(_root_cause(error))})")
        if 200 <= response.status_code < 300:
            rejected, reason = _partial_success(path, response.content)
            return Answer(status=response.status_code, rejected=rejected, reason=reason)
        return Answer(
            status=response.status_code,
            reason=f"HTTP {response.status_code}: {_refusal(response)!r}",
            retry_after_seconds=_seconds(response.headers.get("Retry-After")),
        )

    def close(self) -> None:
        self._session.close()

    def _explain(self, cause: BaseException) -> str:
        reason = f"{type(cause).__name__}: {cause}"
        # What a port does that speaks TLS only.
        hung_up = isinstance(cause, RemoteDisconnected | ConnectionResetError)
        return f"{reason}; is it https://?" if hung_up and self.url.startswith("http://") else reason

    def _authorization(self) -> dict[str, str]:
        if not self._token_file:
            return {}
        token = Path(self._token_file).read_text(encoding="utf-8").strip()
        return {"Authorization": f"Bearer {token}"}


def _root_cause(error: BaseException) -> BaseException:
    """What the socket said, without the layers around it and the URL they quote."""
    while error.__context__ is not None:
        error = error.__context__
    return error


def _partial_success(path: str, content: bytes) -> tuple[int, str]:
    try:
        if path == TRACES:
            traces = ExportTraceServiceResponse.FromString(content).partial_success
            return traces.rejected_spans, traces.error_message
        metrics = ExportMetricsServiceResponse.FromString(content).partial_success
        return metrics.rejected_data_points, metrics.error_message
    except DecodeError:  # a receiver that answers 200 with something else took it all
        return 0, ""


def _refusal(response: requests.Response) -> str:
    """What the body says."""
    if response.headers.get("Content-Type") == PROTOBUF:
        with suppress(DecodeError):
            # A google.rpc.Status: its code and message stand where this one has its two fields.
            return ExportTracePartialSuccess.FromString(response.content).error_message
    return response.text[:200]


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
