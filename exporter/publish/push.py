"""OTLP push: a thread that takes versions from the disk-backed queue, posts them, and forgets what was answered.

    rows --build--> POST /v1/metrics -- delivered: rows deleted, a partial success counted, never repeated
      ^                    |            refused:   halved; a single row is dropped and counted
      +------ stay --------+            otherwise: the same rows again, after a back-off

The next request is built only when the last one is settled on disk: so the points of a series go in order, and
none goes twice but after a request whose answer was lost, with the same time and value.
"""

import logging
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from prometheus_client.core import Metric

from exporter import catalog
from exporter.event_log import SparseLog
from exporter.publish.version_points import build_request
from exporter.push_queue import PushQueue, Waiting, read_depth
from exporter.self_metrics import metric
from exporter.upstream import LAST_BACKOFF_SECONDS, Answer, Backoff, Upstream, UpstreamConfig

log = logging.getLogger(__name__)

VERSIONS_PER_REQUEST: Final = 100
POLL_SECONDS: Final = 0.5
"""How often the queue is looked at."""
CLOSE_SECONDS: Final = 5.0


class Pusher:
    """Pushes from its own thread until it is closed. What it has not sent stays in the journal."""

    def __init__(self, journal: Path, config: UpstreamConfig) -> None:
        self._journal = journal
        self._queue = PushQueue(journal)
        self._upstream = Upstream("metrics", config)
        self._backoff = Backoff()
        self._most = VERSIONS_PER_REQUEST
        self._unsettled: list[int] = []
        """Rows that are done with, but still on disk."""
        self._closing = threading.Event()
        self._log = SparseLog(log)
        self._points = dict.fromkeys(catalog.PUSH_POINT_OUTCOMES, 0)
        self._dropped = dict.fromkeys(catalog.PUSH_DROP_REASONS, 0)
        self._requests = Counter[int]()
        self._thread = threading.Thread(target=self._push_until_closed, name="push", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Sends what waits as long as the receiver takes it, for a few seconds; the rest goes after a restart."""
        self._closing.set()
        self._thread.join(CLOSE_SECONDS)

    def families(self) -> Iterator[Metric]:
        """asyncrl_exporter_push_*."""
        waiting, oldest = read_depth(self._journal)
        age = 0.0 if oldest is None else max(time.time() - oldest, 0.0)
        yield metric(catalog.PUSH_QUEUE, {(): waiting})
        yield metric(catalog.PUSH_OLDEST_AGE, {(): age})
        counters = (
            (catalog.PUSH_POINTS, self._points),
            (catalog.PUSH_DROPPED, self._dropped),
            (
                catalog.PUSH_REQUESTS,
                {str(status or "none"): n for status, n in self._requests.copy().items()},
            ),
        )
        for counter, children in counters:
            yield metric(counter, {(label,): count for label, count in children.items()})

    def _push_until_closed(self) -> None:
        due = time.monotonic()
        while not self._closing.wait(max(due - time.monotonic(), 0.0)):
            try:
                due = time.monotonic() + self._push_once()
            except sqlite3.Error as error:
                self._complain("push waits for the journal", reason=error)
                due = time.monotonic() + POLL_SECONDS
            except Exception:  # a defect of ours: without this the thread would end, and nobody would say so
                log.exception("push to %s failed", self._upstream.name)
                due = time.monotonic() + LAST_BACKOFF_SECONDS
        self._drain(time.monotonic() + CLOSE_SECONDS)
        self._upstream.close()
        self._queue.close()

    def _drain(self, deadline: float) -> None:
        """Until there is a reason to wait: the queue is empty, or the receiver does not take more."""
        with suppress(sqlite3.Error):
            while time.monotonic() < deadline and self._push_once() == 0.0:
                pass

    def _push_once(self) -> float:
        """One request, if something waits. Seconds until the next."""
        self._settle([])
        rows = self._queue.front(self._most)
        if not rows:
            return POLL_SECONDS
        request, points = build_request(rows)
        if not points:
            self._book(rows, 0, Answer(status=200))
            return 0.0
        answer = self._upstream.post(request.SerializeToString())
        self._requests[answer.status] += 1
        if not answer.delivered and not answer.refused:
            self._complain("push failed", reason=answer.reason, waiting=read_depth(self._journal).waiting)
            return self._backoff.failed(answer)
        if self._backoff.succeeded():
            self._log.say("push works again", level=logging.INFO, receiver=self._upstream.name)
        if answer.delivered:
            self._book(rows, points, answer)
        elif len(rows) > 1:
            self._most = len(rows) // 2
        else:
            self._dropped["refused"] += 1
            self._complain("push dropped a version", reason=answer.reason, **_facts(rows[0]))
            self._settle(rows)
        return 0.0

    def _book(self, rows: Sequence[Waiting], points: int, answer: Answer) -> None:
        """The receiver has the rows, or the retention had them before."""
        self._most = min(self._most * 2, VERSIONS_PER_REQUEST)
        rejected = min(max(answer.rejected, 0), points)
        self._points["accepted"] += points - rejected
        self._points["rejected"] += rejected
        self._dropped["expired"] += sum(row.item is None for row in rows)
        if answer.reason:
            self._complain("push rejected in part", reason=answer.reason, rejected=rejected, points=points)
        self._settle(rows)

    def _settle(self, rows: Sequence[Waiting]) -> None:
        """Delete what is done with. What the disk does not take is tried again before anything else is sent."""
        self._unsettled += [row.id for row in rows]
        if self._unsettled:
            self._queue.settle(self._unsettled)
            self._unsettled = []

    def _complain(self, event: str, **facts: Any) -> None:
        """At most one line per minute and event, or an outage would fill the disk."""
        self._log.say(event, receiver=self._upstream.name, **facts)


def _facts(row: Waiting) -> dict[str, object]:
    return {} if row.item is None else {"run": row.item.run, "version": row.item.version}
