"""Writes /metrics: families of one immutable snapshot -> bytes, off the event loop, one page at a time."""

import asyncio
import gzip
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from prometheus_client.core import Metric

from exporter.errors import PageUnavailable
from exporter.negotiation import OPENMETRICS, TEXT, Format
from exporter.page_writer import PageWriter, Part
from exporter.self_metrics import SelfMetrics

_GZIP_LEVEL = 3  # the last of zlib's quick ones: two thirds of the time of level 4, 2 % more bytes

Snapshot = TypeVar("Snapshot")


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """One written page."""

    texts: tuple[bytes, ...]
    """What it is put together of; most of it is in the pages before and after it, too."""
    timestamp: float
    """Unix seconds at which its values were taken."""


def _no_parts(_snapshot: object) -> Iterable[Part]:
    return ()


class Exposition(Generic[Snapshot]):
    """`families(snapshot, now)`, the lasting `parts(snapshot)` and the exporter's own families, as a page. Scrapes
    that ask for the same snapshot in the same format while it is being written share it."""

    def __init__(
        self,
        families: Callable[[Snapshot, float], Iterable[Metric]],
        self_metrics: SelfMetrics,
        parts: Callable[[Snapshot], Iterable[Part]] = _no_parts,
    ) -> None:
        self._families = families
        self._parts = parts
        self._self_metrics = self_metrics
        self._writers = {
            form.name: (PageWriter(form, self_metrics), PageWriter(form, self_metrics))
            for form in (TEXT, OPENMETRICS)
        }
        """Of each format: what is said of the runs, and of the exporter."""
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="exposition")
        self._pending: dict[tuple[int, str, bool], asyncio.Future[Page]] = {}

    async def page(self, snapshot: Snapshot, form: Format, *, compressed: bool) -> Page:
        """The page in `form`, in gzip if `compressed`. Raises PageUnavailable."""
        key = (id(snapshot), form.name, compressed)  # the job holds the snapshot, so its id stays taken
        pending = self._pending.get(key)
        if pending is None:
            loop = asyncio.get_running_loop()
            pending = loop.run_in_executor(self._thread, self._write, snapshot, form, compressed)
            self._pending[key] = pending
            pending.add_done_callback(lambda _: self._pending.pop(key))
        return await asyncio.shield(pending)

    def close(self) -> None:
        """Ends the writing thread once it is idle."""
        self._thread.shutdown()

    def _write(self, snapshot: Snapshot, form: Format, compressed: bool) -> Page:
        started = time.perf_counter()
        timestamp = time.time()
        runs, own = self._writers[form.name]
        body, complete = runs.write(self._families(snapshot, timestamp), self._parts(snapshot))
        if not body and not complete:
            raise PageUnavailable("no metric of the runs could be read; the exporter's log says why")
        self._self_metrics.page_series = runs.series
        health, _ = own.write(self._self_metrics.families(), ())
        texts = (*body, *health, form.end)
        if compressed:
            texts = (gzip.compress(b"".join(texts), _GZIP_LEVEL, mtime=0),)
        self._self_metrics.render_seconds = time.perf_counter() - started
        return Page(texts=texts, timestamp=timestamp)
