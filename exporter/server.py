"""Binds the two listeners and serves them until a signal, in one event loop.

--otlp    POST /v1/traces, /v1/metrics -> Receiver    -> Ingest
--listen  GET /metrics, history, probes -> ScrapePages <- Ingest.snapshot
"""

import asyncio
import json
import os
import signal
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

from hypercorn.asyncio import serve
from hypercorn.config import Config as HypercornConfig
from hypercorn.typing import Framework
from starlette.applications import Starlette

from exporter.config import ExporterConfig, split_address
from exporter.errors import ConfigError
from exporter.ingest import Ingest
from exporter.publish.push import Pusher
from exporter.receiver import Receiver
from exporter.scrape_log import ScrapeLog
from exporter.scrape_pages import ScrapePages
from exporter.self_metrics import SelfMetrics
from exporter.upstream import UpstreamConfig

_BACKLOG = 256
_KEEP_ALIVE_SECONDS = 75.0
"""Also the deadline for the head of a request; longer than a scrape interval of 60 s."""
_READ_SECONDS = 90
_LARGEST_HEAD_BYTES = 16 * 1024
_STOP_SECONDS = 5.0
"""How long requests in flight may take to finish after a signal."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Listeners:
    """The two sockets, bound and listening before anything else starts: connections wait in the backlog."""

    scrape: socket.socket
    otlp: socket.socket

    @classmethod
    def bind(cls, config: ExporterConfig) -> Self:
        """Raises ConfigError where an address is in use or not ours."""
        scrape = _bind("listen", config.listen)
        try:
            return cls(scrape=scrape, otlp=_bind("otlp", config.otlp))
        except ConfigError:
            scrape.close()
            raise

    def close(self) -> None:
        """For a start that failed; `serve_until_signalled` closes them itself."""
        self.scrape.close()
        self.otlp.close()

    @property
    def urls(self) -> dict[str, str]:
        """Where the two can be reached: `metrics` and `otlp`."""
        return {"metrics": _url(self.scrape), "otlp": _url(self.otlp)}

    def write_urls(self, path: Path) -> None:
        """Whoever waits for the file never sees half of it. Raises ConfigError."""
        part = path.with_name(path.name + ".part")
        try:
            part.write_text(json.dumps(self.urls) + "\n", encoding="utf-8")
            os.replace(part, path)
        except OSError as error:
            raise ConfigError(f"cannot write the endpoints file {path}: {error.strerror}") from error


def _bind(name: str, address: str) -> socket.socket:
    host, port = split_address(name, address)
    listener = None
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen(_BACKLOG)
    except OSError as error:
        if listener is not None:
            listener.close()
        raise ConfigError(
            f"cannot listen on {address} (--{name}): {error.strerror}; free the port or choose another"
        ) from error
    return listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def serve_until_signalled(config: ExporterConfig, ingest: Ingest, listeners: Listeners) -> None:
    """Serves until SIGTERM or SIGINT; then stops accepting and finishes what is in flight."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_report)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    scrapes = ScrapeLog()
    ingest.scrape_interval = lambda: scrapes.interval_seconds
    self_metrics = SelfMetrics(scrapes)
    receiver = Receiver(config, ingest, self_metrics)
    pages = ScrapePages(config, ingest, scrapes, self_metrics)
    pusher = None
    if config.push:
        pusher = Pusher(ingest.journal.path, UpstreamConfig.from_environment("metrics", config.push))
        self_metrics.others.append(pusher.families)
    if config.endpoints_file is not None:
        listeners.write_urls(config.endpoints_file)
    try:
        async with asyncio.TaskGroup() as servers:
            servers.create_task(_serve(receiver.app(), listeners.otlp, stop))
            servers.create_task(_serve(pages.app(), listeners.scrape, stop))
    finally:
        receiver.close()
        pages.close()
        if pusher is not None:
            pusher.close()


async def _serve(app: Starlette, listener: socket.socket, stop: asyncio.Event) -> None:
    settings = HypercornConfig()
    settings.bind = [f"fd://{listener.detach()}"]
    settings.backlog = _BACKLOG
    settings.loglevel = "WARNING"
    settings.include_server_header = False
    settings.keep_alive_timeout = _KEEP_ALIVE_SECONDS
    settings.read_timeout = _READ_SECONDS
    settings.h11_max_incomplete_size = _LARGEST_HEAD_BYTES
    settings.graceful_timeout = _STOP_SECONDS
    with suppress(asyncio.CancelledError):  # how hypercorn reports that a connection outlasted the grace
        await serve(cast(Framework, app), settings, shutdown_trigger=stop.wait)


def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    # Python 3.11 reports a connection cancelled at the end of the grace as an error in its callback.
    if not isinstance(context.get("exception"), asyncio.CancelledError):
        loop.default_exception_handler(context)
