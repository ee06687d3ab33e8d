"""Hands answers to clients in pieces, and not for ever: one that reads slowly, or not at all, holds up nobody.

hypercorn waits until a piece is taken, so that of a page that nobody reads one piece is copied, not the page.
"""

import asyncio
from collections.abc import Iterator
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

PATIENCE_SECONDS: Final = 60.0
"""How long an answer may wait for its client in all, and so much longer as the bytes taken need at the slowest rate;
then it is cut short, and the connection with it. What the answer takes to be made does not count."""
SLOWEST_BYTES_PER_SECOND: Final = 128 * 1024
PIECE_BYTES: Final = 64 * 1024


class Paced:
    """`app`, its answers in pieces, to clients that read them."""

    def __init__(self, app: ASGIApp, *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._app = app
        self._patience_seconds = patience_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        clock = asyncio.get_running_loop().time
        left = self._patience_seconds

        async def send_paced(message: Message) -> None:
            nonlocal left
            for piece in _pieces(message):
                if left <= 0.0:  # the server finds the answer unfinished and closes the connection
                    return
                started = clock()
                try:
                    async with asyncio.timeout(left):
                        await send(piece)
                except TimeoutError:
                    left = 0.0
                    return
                left += len(piece.get("body", b"")) / SLOWEST_BYTES_PER_SECOND - (clock() - started)

        await self._app(scope, receive, send_paced)


def _pieces(message: Message) -> Iterator[Message]:
    rest = memoryview(message.get("body", b""))
    if len(rest) <= PIECE_BYTES:
        yield message
        return
    while len(rest) > PIECE_BYTES:
        yield {"type": "http.response.body", "body": rest[:PIECE_BYTES], "more_body": True}
        rest = rest[PIECE_BYTES:]
    yield {**message, "body": rest}
