"""Spans become bytes away from whoever says them: once for all endpoints, in the order in which they were said.

    caller --add--> waiting --> thread --encode--> deliver

Encoding a step of sixty values takes longer than the rest of saying it, and the trainer would wait for it.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from opentelemetry.sdk.trace import ReadableSpan

from runtime.telemetry.encoding import encode_span
from runtime.telemetry.log_pace import LogPace
from runtime.telemetry.partial import Partial
from runtime.telemetry.span_buffer import EncodedSpan, Kind

log = logging.getLogger(__name__)

MOST_WAITING: Final = 1024
"""Spans. Beyond it each caller encodes one itself, so that nothing piles up in front of the bounded buffers."""
HELP_TIMEOUT_SECONDS: Final = 0.1
"""In a signal handler, the thread may wait for what the handler interrupted: then a span is dropped instead."""


class Said(NamedTuple):
    kind: Kind
    span: ReadableSpan
    values: Mapping[str, float | Partial]


class SpanEncoder:
    """A daemon thread that hands each span to `deliver`; one that cannot be encoded is left to `drop`."""

    def __init__(self, deliver: Callable[[EncodedSpan], None], drop: Callable[[Kind], None]) -> None:
        self._deliver = deliver
        self._drop = drop
        self._waiting: deque[Said] = deque()
        self._changed = threading.Condition()  # guards what waits
        self._encoding = threading.RLock()  # held by whoever encodes, so that the order stays
        self._closed = False
        self._log_pace = LogPace()  # of whoever encodes
        self.cpu_seconds = 0.0
        """Of the thread."""
        self._thread = threading.Thread(target=self._run, name="telemetry encoder", daemon=True)
        self._thread.start()

    def add(self, said: Said) -> None:
        with self._changed:
            self._waiting.append(said)
            if len(self._waiting) == 1:
                self._changed.notify()
        if len(self._waiting) > MOST_WAITING:
            self._help()

    def drain(self, timeout_seconds: float) -> None:
        """Returns when all that was said is delivered, or the time is over."""
        deadline = time.monotonic() + timeout_seconds
        left = timeout_seconds
        while left >= 0 and self._encoding.acquire(timeout=left):
            try:
                if not self._encode_next():
                    return  # nor is one in the thread's hands: it would hold the lock
            finally:
                self._encoding.release()
            left = deadline - time.monotonic()

    def close(self) -> None:
        """Stop; what still waits is dropped."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        while said := self._take():
            self._drop(said.kind)

    def join(self, timeout_seconds: float) -> None:
        self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while not self._closed:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
            with self._encoding:
                self._encode_next()
            self.cpu_seconds = time.thread_time()

    def _help(self) -> None:
        if self._encoding.acquire(timeout=HELP_TIMEOUT_SECONDS):
            try:
                self._encode_next()
            finally:
                self._encoding.release()
        elif said := self._take():
            self._drop(said.kind)

    def _take(self) -> Said | None:
        try:
            return self._waiting.popleft()
        except IndexError:
            return None

    def _encode_next(self) -> bool:
        """The oldest, if one waits. For whoever holds the lock."""
        said = self._take()
        if said is None:
            return False
        try:
            self._deliver(EncodedSpan(said.kind, encode_span(said.span, said.values)))
        # A name that is no UTF-8, say: the fault of one span costs no other.
        except Exception:
            self._drop(said.kind)
            self._complain(said.span.name)
        return True

    def _complain(self, name: str) -> None:
        left_out = self._log_pace.take()
        if left_out is not None:
            log.exception(
                "a span %s could not be encoded and is dropped; %d messages like this left out",
                name,
                left_out,
            )
