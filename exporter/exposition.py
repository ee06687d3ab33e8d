"""Writes /metrics: families of one immutable snapshot -> bytes, off the event loop, one page at a time."""

import asyncio
import gzip
import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from exporter.errors import PageUnavailable
from exporter.negotiation import Format
from exporter.self_metrics import SelfMetrics

_LOG = logging.getLogger(__name__)
_GZIP_LEVEL = 4  # about 8:1 on such pages at a third of the time of level 9

Snapshot = TypeVar("Snapshot")


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """One written page."""

    body: bytes
    timestamp: float
    """Unix seconds at which its values were taken."""


class _OneFamily(Collector):
    """A registry of a single family: the encoders of prometheus_client take nothing smaller."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> list[Metric]:
        return [self._family]


class Exposition(Generic[Snapshot]):
    """`families(snapshot, now)` and the exporter's own families, as a page. Scrapes that ask for the same
    snapshot in the same format while it is being written share it."""

    def __init__(
        self, families: Callable[[Snapshot, float], Iterable[Metric]], self_metrics: SelfMetrics
    ) -> None:
        self._families = families
        self._self_metrics = self_metrics
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="exposition")
        self._pending: dict[tuple[int, str, bool], asyncio.Future[Page]] = {}
        self._reported: set[str] = set()

    async def page(self, snapshot: Snapshot, form: Format, *, compressed: bool) -> Page:
        """The page in `form`, in gzip if `compressed`. Raises PageUnavailable."""
        key = (id(snapshot), form.name, compressed)  # the job holds the snapshot, so its id stays taken
        pending = self._pending.get(key)
        if pending is None:
            loop = asyncio.get_running_loop()
            pending = loop.run_in_executor(self._writer, self._write, snapshot, form, compressed)
            self._pending[key] = pending
            pending.add_done_callback(lambda _: self._pending.pop(key))
        return await asyncio.shield(pending)

    def close(self) -> None:
        """Ends the writing thread once it is idle."""
        self._writer.shutdown()

    def _write(self, snapshot: Snapshot, form: Format, compressed: bool) -> Page:
        started = time.perf_counter()
        timestamp = time.time()
        body, failures = self._encode(self._families(snapshot, timestamp), form)
        if failures and not body:
            raise PageUnavailable("no metric of the runs could be read; the exporter's log says why")
        own, _ = self._encode(self._self_metrics.families(), form)
        page = b"".join([*body, *own, form.end])
        if compressed:
            page = gzip.compress(page, _GZIP_LEVEL, mtime=0)
        self._self_metrics.render_seconds = time.perf_counter() - started
        return Page(body=page, timestamp=timestamp)

    def _encode(self, families: Iterable[Metric], form: Format) -> tuple[list[bytes], int]:
        """The text of each family, and how many could not be read or written."""
        written: list[bytes] = []
        failures = 0
        remaining = iter(families)
        while True:
            name = "the next family"
            try:
                family = next(remaining, None)
                if family is None:
                    return written, failures
                name = family.name
                written.append(form.encode(_OneFamily(family)).removesuffix(form.end))
            except Exception as error:  # whatever it is, it must not take the other families down
                failures += 1
                self._self_metrics.render_errors += 1
                if name not in self._reported:
                    self._reported.add(name)
                    # cut short: prometheus_client appends the whole family to the error's arguments
                    _LOG.error("%s is left out of the page: %.200r", name, error)
