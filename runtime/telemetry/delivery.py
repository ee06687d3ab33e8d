"""One endpoint: a bounded buffer and a thread that posts it. Never blocks and never raises into the caller.

    caller --add----> SpanBuffer --take--> POST /v1/traces -- 2xx: delivered, partial success counted
    caller --offer--> newest metrics ----> POST /v1/metrics   413: halved; a single span is dropped
                           ^                     |            401, 403, 408, 429, 5xx, no answer: back, later again
                           +------ give back ----+            any other answer: dropped and counted

At least once: a batch leaves the buffer for good only when it was answered. A failed metrics post is not
repeated: its sums are cumulative, so the next collection says it all.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from runtime.telemetry.config import TelemetryConfig
from runtime.telemetry.encoding import encode_batch
from runtime.telemetry.endpoint import METRICS, TRACES, Answer, Endpoint
from runtime.telemetry.log_pace import LogPace
from runtime.telemetry.span_buffer import EncodedSpan, Kind, SpanBuffer

log = logging.getLogger(__name__)

FIRST_BACKOFF_SECONDS = 0.25
LAST_BACKOFF_SECONDS = 30.0
NEVER = float("inf")

# Not the global generator: a training run's seed stays its own.
_jitter = random.SystemRandom()


@dataclass(kw_only=True, slots=True)
class Pace:
    """When one signal may be posted next, in seconds of the monotonic clock: exponential back-off, jittered."""

    not_before: float = 0.0
    failures: int = 0

    def delivered(self, now: float, pause_seconds: float) -> None:
        self.failures = 0
        self.not_before = now + pause_seconds

    def failed(self, now: float, retry_after_seconds: float | None) -> None:
        if retry_after_seconds is None:
            backoff = min(FIRST_BACKOFF_SECONDS * 2.0 ** min(self.failures, 16), LAST_BACKOFF_SECONDS)
            retry_after_seconds = backoff * _jitter.uniform(0.5, 1.0)
        self.failures += 1
        self.not_before = now + retry_after_seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class DeliveryStats:
    """What became of the spans for one endpoint so far."""

    endpoint: str
    """Its base URL."""
    sent: int
    """Acknowledged."""
    rejected: int
    """Spans and data points that were answered but refused."""
    buffered: int
    """Not yet answered."""
    dropped: Mapping[Kind, int]
    """Given up: a full buffer, a final refusal, or still unsent at shutdown."""
    failures: int
    """Posts without a 2xx, or of which records were refused."""
    last_failure: str
    """What the newest of these was; empty without one."""
    cpu_seconds: float
    """CPU time of the thread that delivers."""


class Delivery:
    """Ships encoded spans and metrics to one endpoint from a daemon thread."""

    def __init__(
        self,
        url: str,
        config: TelemetryConfig,
        envelope: ExportTraceServiceRequest,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._endpoint = Endpoint(url, config)
        self._config = config
        self._envelope = envelope
        self._monotonic = monotonic

        self._changed = threading.Condition()  # guards all below
        self._buffer = SpanBuffer(max_spans=config.buffer_spans, max_bytes=config.buffer_bytes)
        self._metrics: bytes | None = None
        self._spans_pace = Pace()
        self._metrics_pace = Pace()
        self._unsettled: list[list[EncodedSpan]] = []
        """The batch being posted, as one piece or halved; the next piece, and the oldest, is the last."""
        self._posting_metrics = False
        self._flushing = False
        self._closed = False
        self._sent = 0
        self._rejected = 0
        self._cpu_seconds = 0.0

        self._failures = 0
        self._last_failure = ""

        self._log_pace = LogPace(monotonic)  # of the thread alone
        self._thread = threading.Thread(target=self._run, name=f"telemetry {url}", daemon=True)
        self._thread.start()

    # The caller's side: short critical sections only, never held during a post.

    def add(self, span: EncodedSpan) -> None:
        with self._changed:
            if self._closed:
                self._buffer.drop((span,))
                return
            self._buffer.add(span)
            if len(self._buffer) in (1, self._config.batch_spans):
                self._changed.notify_all()

    def drop(self, kind: Kind) -> None:
        """Count a span of that kind that never became bytes."""
        with self._changed:
            self._buffer.drop((EncodedSpan(kind, b""),))

    def offer_metrics(self, body: bytes) -> None:
        """Post `body`, unless a newer one comes first."""
        with self._changed:
            if not self._closed:
                self._metrics = body
                self._changed.notify_all()

    def start_flush(self) -> None:
        """Try at once what waits, whatever the back-off; `wait_flushed` waits for the answers."""
        with self._changed:
            self._flushing = True
            self._spans_pace = Pace()
            self._metrics_pace = Pace()
            self._changed.notify_all()

    def wait_flushed(self, timeout_seconds: float) -> bool:
        """Whether all was answered within the time."""
        with self._changed:
            done = self._changed.wait_for(self._is_idle, timeout_seconds)
            self._flushing = False
            return done

    def close(self) -> None:
        """Stop. What has no answer is dropped and counted; a post that hangs is left to the daemon thread."""
        with self._changed:
            self._closed = True
            self._put_back()
            self._metrics = None
            unsent = self._buffer.drop_all()
            self._changed.notify_all()
        if unsent:
            log.warning("telemetry to %s: stopped with %d spans unsent", self._endpoint.url, unsent)

    def join(self, timeout_seconds: float) -> None:
        self._thread.join(timeout_seconds)

    def stats(self) -> DeliveryStats:
        with self._changed:
            return DeliveryStats(
                endpoint=self._endpoint.url,
                sent=self._sent,
                rejected=self._rejected,
                buffered=len(self._buffer) + sum(len(batch) for batch in self._unsettled),
                dropped=self._buffer.dropped.copy(),
                failures=self._failures,
                last_failure=self._last_failure,
                cpu_seconds=self._cpu_seconds,
            )

    # The thread's side.

    def _run(self) -> None:
        while self._wait_for_work():
            if self._metrics is not None and self._metrics_pace.not_before <= self._monotonic():
                self._send_metrics()
            if self._spans_due() <= self._monotonic():
                self._send_spans()
            self._cpu_seconds = time.thread_time()
        self._endpoint.close()

    def _wait_for_work(self) -> bool:
        """Block until something is due; False once closed."""
        with self._changed:
            while not self._closed:
                metrics_due = NEVER if self._metrics is None else self._metrics_pace.not_before
                delay = min(metrics_due, self._spans_due()) - self._monotonic()
                if delay <= 0:
                    return True
                self._changed.wait(delay if delay < NEVER else None)
            return False

    def _spans_due(self) -> float:
        """A full batch goes at once, a smaller one a flush interval after the last; back-off holds for both."""
        if not self._buffer:
            return NEVER
        hurry = self._flushing or len(self._buffer) >= self._config.batch_spans
        return -NEVER if hurry and not self._spans_pace.failures else self._spans_pace.not_before

    def _is_idle(self) -> bool:
        return not (self._buffer or self._unsettled or self._metrics is not None or self._posting_metrics)

    def _send_metrics(self) -> None:
        with self._changed:
            body, self._metrics = self._metrics, None
            self._posting_metrics = body is not None
        if body is None:
            return
        answer = self._post(METRICS, body)
        with self._changed:
            self._posting_metrics = False
            if answer.later:
                self._metrics_pace.failed(self._monotonic(), answer.retry_after_seconds)
                if self._flushing and self._metrics is None:  # there may be no next collection
                    self._metrics = body
            else:
                self._metrics_pace.delivered(self._monotonic(), pause_seconds=0.0)
            self._changed.notify_all()

    def _send_spans(self) -> None:
        with self._changed:
            batch = self._buffer.take(max_spans=self._config.batch_spans, max_bytes=self._config.batch_bytes)
            self._unsettled = [batch] if batch else []
        while batch:
            answer = self._post(TRACES, encode_batch(self._envelope, [span.data for span in batch]))
            with self._changed:
                batch = self._settle(answer)
                self._changed.notify_all()

    def _settle(self, answer: Answer) -> list[EncodedSpan]:
        """Book the answer to the last piece; the piece to post next, if any."""
        if not self._unsettled:  # closed meanwhile, which has counted the piece
            return []
        if answer.later:
            self._put_back()
            self._spans_pace.failed(self._monotonic(), answer.retry_after_seconds)
            return []
        batch = self._unsettled.pop()
        if answer.too_large and len(batch) > 1:
            half = len(batch) // 2
            self._unsettled += [batch[half:], batch[:half]]
        elif answer.delivered:
            self._sent += len(batch) - answer.rejected
        else:
            self._buffer.drop(batch)
        self._spans_pace.delivered(self._monotonic(), self._config.flush_interval_seconds)
        return self._unsettled[-1] if self._unsettled else []

    def _put_back(self) -> None:
        for batch in self._unsettled:  # the oldest comes last, and so ends at the front
            self._buffer.give_back(batch)
        self._unsettled = []

    def _post(self, path: str, body: bytes) -> Answer:
        answer = self._endpoint.post(path, body)
        if not answer.delivered:
            self._complain(f"{path} failed, {answer.reason}")
        elif answer.rejected:
            self._complain(f"{path} refused {answer.rejected} records: {answer.reason}", answer.rejected)
        return answer

    def _complain(self, what: str, rejected: int = 0) -> None:
        with self._changed:
            self._rejected += rejected
            self._failures += 1
            self._last_failure = what
        left_out = self._log_pace.take()
        if left_out is None:
            return
        stats = self.stats()
        log.warning(
            "telemetry to %s: %s; %d spans waiting, dropped so far %s, %d messages like this left out",
            stats.endpoint,
            what,
            stats.buffered,
            stats.dropped,
            left_out,
        )
