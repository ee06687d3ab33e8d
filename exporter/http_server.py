"""HTTP on one listener until it is told to stop: hypercorn's protocol on a socket and a TLS context that are there.

hypercorn's own `serve` keeps a connection that its client has closed until the keep-alive is over.
"""

import asyncio
import ssl
from typing import Final, cast

from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.typing import ASGIFramework
from starlette.types import ASGIApp

from exporter.connections import BACKLOG, Listener

_KEEP_ALIVE_SECONDS: Final = 75.0
"""Also the deadline for the head of a request; longer than a scrape interval of 60 s."""
_READ_SECONDS: Final = 90
_LARGEST_HEAD_BYTES: Final = 16 * 1024
_HANDSHAKE_SECONDS: Final = 10.0
_STOP_SECONDS: Final = 5.0
"""How long requests in flight may take to finish after a signal."""


async def serve(app: ASGIApp, listener: Listener, tls: ssl.SSLContext | None, stop: asyncio.Event) -> None:
    """Accepts until `stop` is set, then finishes what is in flight."""
    loop, settings, context = asyncio.get_running_loop(), _settings(), WorkerContext(None)
    wrapped = ASGIWrapper(cast(ASGIFramework, app))
    conversations: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = loop.create_task(_Conversation(wrapped, loop, settings, context, {}, reader, writer).run())
        conversations[task] = writer
        task.add_done_callback(conversations.pop)

    server = await asyncio.start_server(
        converse,
        sock=listener,
        backlog=BACKLOG,
        ssl=tls,
        ssl_handshake_timeout=None if tls is None else _HANDSHAKE_SECONDS,
    )
    await stop.wait()
    server.close()
    await context.terminated.set()  # what is idle ends
    if conversations:
        await asyncio.wait(conversations, timeout=_STOP_SECONDS)
    for task, writer in conversations.items():
        writer.transport.abort()  # closing it would wait for a client that does not read
        task.cancel()
    await asyncio.gather(*conversations, return_exceptions=True)


class _Conversation(TCPServer):
    """One connection: it ends when its client has said all, and has its answer."""

    async def _read_data(self) -> None:
        await super()._read_data()
        await self.idle_task.stop()

    async def _idle_timeout(self) -> None:
        if not self.reader.at_eof():
            await super()._idle_timeout()


def _settings() -> Config:
    settings = Config()
    settings.loglevel = "WARNING"
    settings.include_server_header = False
    settings.keep_alive_timeout = _KEEP_ALIVE_SECONDS
    settings.read_timeout = _READ_SECONDS
    settings.h11_max_incomplete_size = _LARGEST_HEAD_BYTES
    return settings
