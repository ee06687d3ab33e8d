"""Encoded spans that wait for delivery: bounded in number and bytes, detail given up before control."""

from collections import deque
from collections.abc import Iterable
from typing import Literal, NamedTuple

Kind = Literal["control", "detail"]
KINDS: tuple[Kind, ...] = ("control", "detail")


class EncodedSpan(NamedTuple):
    kind: Kind
    data: bytes
    """One serialised `opentelemetry.proto.trace.v1.Span`."""


class SpanBuffer:
    """A queue that forgets rather than grows: first the oldest detail span, then the oldest control span.

    Not thread-safe; its owner holds a lock. A batch that was taken no longer counts against the bounds.
    """

    def __init__(self, *, max_spans: int, max_bytes: int) -> None:
        self._max_spans = max_spans
        self._max_bytes = max_bytes
        self._bytes = 0
        self._queues: dict[Kind, deque[EncodedSpan]] = {kind: deque() for kind in KINDS}
        self.dropped: dict[Kind, int] = dict.fromkeys(KINDS, 0)

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._queues.values())

    def add(self, span: EncodedSpan) -> None:
        if len(span.data) > self._max_bytes:  # would push out everything else and still not fit
            self.drop((span,))
            return
        self._queues[span.kind].append(span)
        self._bytes += len(span.data)
        self._fit()

    def take(self, *, max_spans: int, max_bytes: int) -> list[EncodedSpan]:
        """The next batch, oldest first, control before detail; at least one span if there is any."""
        batch: list[EncodedSpan] = []
        size = 0
        for kind in KINDS:
            queue = self._queues[kind]
            while queue and len(batch) < max_spans and (not batch or size + len(queue[0].data) <= max_bytes):
                span = queue.popleft()
                batch.append(span)
                size += len(span.data)
        self._bytes -= size
        return batch

    def give_back(self, batch: list[EncodedSpan]) -> None:
        """Put a batch that was not delivered back to the front, in its order."""
        for span in reversed(batch):
            self._queues[span.kind].appendleft(span)
            self._bytes += len(span.data)
        self._fit()

    def drop_all(self) -> int:
        """Give up everything that waits; how many spans that were."""
        waiting = len(self)
        for queue in self._queues.values():
            self.drop(queue)
            queue.clear()
        self._bytes = 0
        return waiting

    def drop(self, spans: Iterable[EncodedSpan]) -> None:
        """Count spans that are lost for good."""
        for span in spans:
            self.dropped[span.kind] += 1

    def _fit(self) -> None:
        while self._bytes > self._max_bytes or len(self) > self._max_spans:
            span = (self._queues["detail"] or self._queues["control"]).popleft()
            self._bytes -= len(span.data)
            self.drop((span,))
