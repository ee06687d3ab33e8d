"""Connections in a crowd, in a stall, and with an answer that nobody reads, on real sockets in this process."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from exporter import pacing
from exporter.config import ExporterConfig
from exporter.connections import STALLED_SECONDS, Listener
from exporter.errors import ConfigError
from exporter.http_server import serve
from exporter.listeners import Listeners
from exporter.pacing import PIECE_BYTES, Paced
from tests.wire import WATCHDOG_SECONDS

App = Callable[[Any, Any, Any], Awaitable[None]]


@asynccontextmanager
async def served(app: App, *, most: int = 16) -> AsyncIterator[Listener]:
    listener = Listener.bind_to("127.0.0.1", 0, most=most)

    stop = asyncio.Event()
    server = asyncio.ensure_future(serve(app, listener, None, stop))
    try:
        yield listener
    finally:
        stop.set()
        await asyncio.gather(server, return_exceptions=True)


async def await_that(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WATCHDOG_SECONDS
    while True:
        if condition():
            return
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


def connect(listener: Listener) -> socket.socket:
    connection = socket.create_connection(listener.getsockname(), timeout=WATCHDOG_SECONDS)
    connection.setblocking(False)
    return connection


async def answer(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})


async def large_answer(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        body = bytes(64 * PIECE_BYTES)
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


REQUEST = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


def test_connections_beyond_the_open_files_allowed_are_a_mistake() -> None:
    with pytest.raises(ConfigError, match=r"max_connections needs \d+ open files, \d+ are allowed"):
        Listeners.bind(ExporterConfig(listen="127.0.0.1:0", otlp="127.0.0.1:0", max_connections=10**12))


def test_the_connection_that_has_been_silent_longest_makes_room() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        async with served(answer, most=3) as listener:
            first, second, third = (connect(listener) for _ in range(3))
            await await_that(lambda: len(listener.connections) == 3)
            await loop.sock_sendall(first, REQUEST)
            assert (await loop.sock_recv(first, 1000)).startswith(b"HTTP/1.1 200")
            fourth = connect(listener)
            assert await loop.sock_recv(second, 1) == b""  # first spoke, so second is the oldest
            assert dict(listener.connections.ended) == {"crowded": 1}
            for connection in (first, third, fourth):
                await loop.sock_sendall(connection, REQUEST)
                assert (await loop.sock_recv(connection, 1000)).startswith(b"HTTP/1.1 200")
            for connection in (first, second, third, fourth):
                connection.close()
            await await_that(lambda: len(listener.connections) == 0)

    asyncio.run(scenario())


def test_a_connection_in_which_nothing_moves_is_ended() -> None:
    async def scenario() -> None:
        async with served(answer) as listener:
            with connect(listener) as silent:
                await await_that(lambda: len(listener.connections) == 1)
                listener.connections.end_stalled(time.monotonic() + STALLED_SECONDS - 1.0)
                assert len(listener.connections) == 1
                listener.connections.end_stalled(time.monotonic() + STALLED_SECONDS + 1.0)
                assert await asyncio.get_running_loop().sock_recv(silent, 1) == b""
                assert dict(listener.connections.ended) == {"stalled": 1}

    asyncio.run(scenario())


def test_clients_that_close_leave_no_connection_behind() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        async with served(answer, most=400) as listener:
            clients = []
            for said in 100 * (b"", REQUEST[:9], REQUEST):
                client = connect(listener)
                await loop.sock_sendall(client, said)
                if said == REQUEST:
                    assert (await loop.sock_recv(client, 1000)).startswith(b"HTTP/1.1 200")
                clients.append(client)
            await await_that(lambda: len(listener.connections) == 300)
            for client in clients:
                client.close()
            await await_that(lambda: len(listener.connections) == 0)

    asyncio.run(scenario())


def test_a_client_that_has_said_all_and_closed_its_half_is_answered() -> None:
    async def late_answer(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0.1)
        await answer(scope, receive, send)

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        async with served(late_answer) as listener:
            with connect(listener) as client:
                await loop.sock_sendall(client, REQUEST)
                client.shutdown(socket.SHUT_WR)
                assert (await loop.sock_recv(client, 1000)).startswith(b"HTTP/1.1 200")
                assert await loop.sock_recv(client, 1) == b""
            await await_that(lambda: len(listener.connections) == 0)

    asyncio.run(scenario())


def test_an_answer_comes_whole_to_who_reads_it() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        async with served(Paced(large_answer)) as listener:
            with connect(listener) as reader:
                await loop.sock_sendall(reader, REQUEST)
                got = b""
                while len(got) < 64 * PIECE_BYTES:
                    got += await loop.sock_recv(reader, PIECE_BYTES)
                head, _, body = got.partition(b"\r\n\r\n")
                while len(body) < 64 * PIECE_BYTES:
                    body += await loop.sock_recv(reader, PIECE_BYTES)
                assert head.startswith(b"HTTP/1.1 200")
                assert body == bytes(64 * PIECE_BYTES)

    asyncio.run(scenario())


def test_an_answer_that_nobody_reads_is_cut_short_and_its_connection_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pacing, "SLOWEST_BYTES_PER_SECOND", 10**12)  # what the kernel buffers earns no time
    finished = []

    async def watched(scope: Any, receive: Any, send: Any) -> None:
        await large_answer(scope, receive, send)
        if scope["type"] == "http":
            finished.append(True)

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        async with served(Paced(watched, patience_seconds=0.2)) as listener:
            with connect(listener) as reader:
                await loop.sock_sendall(reader, REQUEST)
                await await_that(lambda: finished == [True])  # the application waits no longer
                listener.connections.end_stalled(time.monotonic() + STALLED_SECONDS + 1.0)
                got = 1
                async with asyncio.timeout(WATCHDOG_SECONDS):
                    total = 0
                    while got:
                        got = len(await loop.sock_recv(reader, PIECE_BYTES))
                        total += got
                assert total < 64 * PIECE_BYTES
            await await_that(lambda: len(listener.connections) == 0)

    asyncio.run(scenario())
