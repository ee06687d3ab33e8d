"""Serves the two listeners until a signal, in one event loop; each application stands behind its Access.

--otlp    POST /v1/traces, /v1/metrics  -> Access -> Receiver    -> Ingest
--listen  GET /metrics, history, probes -> Access -> ScrapePages <- Ingest.snapshot
"""

import asyncio
import gc
import signal
import ssl
import sys
import time
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, Self

from exporter import receiver as otlp_receiver
from exporter import scrape_pages
from exporter.access import Access
from exporter.config import ExporterConfig
from exporter.forward import SpanForwarder
from exporter.guard import RELOAD_SECONDS
from exporter.http_server import serve
from exporter.ingest import Ingest
from exporter.listeners import Listeners
from exporter.pacing import Paced
from exporter.publish.push import Pusher
from exporter.receiver import Receiver
from exporter.scrape_log import ScrapeLog
from exporter.scrape_pages import ScrapePages
from exporter.self_metrics import SelfMetrics, ingest_families
from exporter.upstream import UpstreamConfig

_SWITCH_SECONDS = 0.0005
"""How long a thread may hold the interpreter while others want it. A request changes threads several times; at the
default of 5 ms each change could wait while a page is being written."""
_COLLECTION_CONTAINERS = 50_000
"""After how many new ones Python searches them for cycles: a large request makes 10,000 that are in none, and live as
long as it does. At the default of 700 they are searched over and over."""


class Upstreams(NamedTuple):
    """Where versions are pushed, and where spans are forwarded; None: nowhere."""

    metrics: UpstreamConfig | None
    traces: UpstreamConfig | None

    @classmethod
    def find(cls, config: ExporterConfig) -> Self:
        """What the settings name, with what the environment adds. Raises ConfigError."""
        return cls(
            UpstreamConfig.from_environment("metrics", config.push) if config.push else None,
            UpstreamConfig.from_environment("traces", config.forward_spans) if config.forward_spans else None,
        )


async def serve_until_signalled(
    config: ExporterConfig, ingest: Ingest, listeners: Listeners, upstreams: Upstreams
) -> None:
    """Serves until SIGTERM or SIGINT; then stops accepting and finishes what is in flight."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.set_threshold(_COLLECTION_CONTAINERS)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_report)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    scrapes = ScrapeLog()
    ingest.scrape_interval = lambda: scrapes.interval_seconds
    self_metrics = SelfMetrics(scrapes)
    pusher = Pusher(ingest.journal.path, upstreams.metrics) if upstreams.metrics else None
    forwarder = SpanForwarder(upstreams.traces) if upstreams.traces else None
    senders = [sender for sender in (pusher, forwarder) if sender is not None]
    receiver = Receiver(config, ingest, self_metrics, forwarder)
    pages = ScrapePages(config, ingest, scrapes, self_metrics)
    self_metrics.others += [
        partial(ingest_families, ingest),
        listeners.families,
        *(sender.families for sender in senders),
    ]
    otlp_access = Access(receiver.app(), listeners.otlp.guard, refuse=otlp_receiver.error_response)
    scrape_access = Access(pages.app(), listeners.scrape.guard, refuse=scrape_pages.error_response)
    if config.endpoints_file is not None:
        listeners.write_urls(config.endpoints_file)
    try:
        async with asyncio.TaskGroup() as servers:
            for access, entrance in ((otlp_access, listeners.otlp), (scrape_access, listeners.scrape)):
                servers.create_task(serve(Paced(access), entrance.socket, entrance.guard.tls, stop))
            servers.create_task(_keep_watch(listeners, stop))
    finally:
        otlp_access.close()
        scrape_access.close()
        receiver.close()
        pages.close()
        for sender in senders:
            sender.close()


async def _keep_watch(listeners: Listeners, stop: asyncio.Event) -> None:
    """Follows the web config files and ends connections in which nothing moves."""
    while not stop.is_set():
        for entrance in (listeners.scrape, listeners.otlp):
            entrance.guard.reload_if_changed()
            entrance.socket.connections.end_stalled(time.monotonic())
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), RELOAD_SECONDS)


def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    # A client that breaks off, or off the rules of TLS, is nothing to report.
    if not isinstance(context.get("exception"), (ssl.SSLError, ConnectionError)):
        loop.default_exception_handler(context)
