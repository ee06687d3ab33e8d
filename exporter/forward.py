"""Spans passed on to an upstream OTLP receiver, such as a trace store: each request as it came, byte for byte.

    Receiver --offer--> bounded buffer --> POST /v1/traces -- delivered, or refused: gone, counted
                             ^                    |          otherwise: the same again, after a back-off
                             +------- stay -------+          full: the oldest are dropped, counted

A convenience beside the record: what is numbered among these spans is in the journal, the buffer is in memory.
"""

import logging
import threading
from collections import deque
from collections.abc import Iterator
from typing import Final

from prometheus_client.core import Metric

from exporter import catalog
from exporter.event_log import SparseLog, say
from exporter.self_metrics import metric
from exporter.upstream import Answer, Backoff, Upstream, UpstreamConfig

log = logging.getLogger(__name__)

BUFFER_BYTES: Final = 64 * 1024 * 1024
CLOSE_SECONDS: Final = 5.0


class SpanForwarder:
    """Forwards from its own thread until it is closed; never holds up who offers."""

    def __init__(self, config: UpstreamConfig, *, buffer_bytes: int = BUFFER_BYTES) -> None:
        self._upstream = Upstream("traces", config)
        self._backoff = Backoff()
        self._most_bytes = buffer_bytes
        self._log = SparseLog(log)
        self._changed = threading.Condition()  # guards all below
        self._bodies: deque[bytes] = deque()
        self._bytes = 0
        self._outcomes = dict.fromkeys(catalog.FORWARD_OUTCOMES, 0)
        self._closing = False
        self._thread = threading.Thread(target=self._forward_until_closed, name="forward", daemon=True)
        self._thread.start()

    def offer(self, body: bytes) -> None:
        """Take a request, an ExportTraceServiceRequest in protobuf."""
        with self._changed:
            self._bodies.append(body)
            self._bytes += len(body)
            while self._bytes > self._most_bytes:
                self._bytes -= len(self._bodies.popleft())
                self._outcomes["dropped"] += 1
            self._changed.notify_all()

    def close(self) -> None:
        """Sends what is buffered, as far as that goes without waiting."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(CLOSE_SECONDS)
        if self._bodies:
            say(log, "forwarding stopped", level=logging.WARNING, requests_unsent=len(self._bodies))

    def families(self) -> Iterator[Metric]:
        """asyncrl_exporter_forward_*."""
        with self._changed:
            buffered, outcomes = self._bytes, self._outcomes.copy()
        yield metric(catalog.FORWARD_BUFFERED, {(): buffered})
        yield metric(catalog.FORWARD_REQUESTS, {(outcome,): count for outcome, count in outcomes.items()})

    def _forward_until_closed(self) -> None:
        pause_seconds = 0.0
        while (body := self._next_body(pause_seconds)) is not None:
            answer = self._upstream.post(body)
            pause_seconds = self._book(body, answer)
        self._upstream.close()

    def _next_body(self, pause_seconds: float) -> bytes | None:
        """The oldest request after a pause; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._closing, pause_seconds)
            self._changed.wait_for(lambda: self._closing or self._bodies)
            return self._bodies[0] if self._bodies and not (self._closing and pause_seconds) else None

    def _book(self, body: bytes, answer: Answer) -> float:
        """Seconds until the next try."""
        if answer.reason:
            self._complain(answer)
        if not answer.delivered and not answer.refused:
            return self._backoff.failed(answer)
        if self._backoff.succeeded():
            self._log.say("forwarding spans works again", level=logging.INFO, receiver=self._upstream.name)
        with self._changed:
            if self._bodies and self._bodies[0] is body:  # or it was dropped meanwhile
                self._bodies.popleft()
                self._bytes -= len(body)
                self._outcomes["delivered" if answer.delivered else "refused"] += 1
        return 0.0

    def _complain(self, answer: Answer) -> None:
        """At most one line per minute, or an outage would fill the disk."""
        self._log.say(
            "forwarded spans rejected in part" if answer.delivered else "forwarding spans failed",
            receiver=self._upstream.name,
            reason=answer.reason,
            rejected=answer.rejected,
        )
