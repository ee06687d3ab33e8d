"""Hands answers to clients in pieces, and not for ever: one that reads slowly, or not at all, holds up nobody.

hypercorn waits until a piece is taken, so that of a page that nobody reads one piece is copied, not the page.
"""

import asyncio
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

ANSWER_SECONDS: Final = 60.0
"""How long the reading of a whole answer may take; then it is cut short, and the connection with it."""
PIECE_BYTES: Final = 64 * 1024


class Paced:
    """`app`, its answers in pieces and under a deadline."""

    def __init__(self, app: ASGIApp, *, answer_seconds: float = ANSWER_SECONDS) -> None:
        self._app = app
        self._answer_seconds = answer_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        deadline: float | None = None
        cut = False

        async def send_paced(message: Message) -> None:
            nonlocal deadline, cut
            if deadline is None:
                deadline = asyncio.get_running_loop().time() + self._answer_seconds
            if cut:
                return
            try:
                async with asyncio.timeout_at(deadline):
                    await _send_in_pieces(send, message)
            except TimeoutError:
                cut = True  # the server finds the answer unfinished and closes the connection

        await self._app(scope, receive, send_paced)


async def _send_in_pieces(send: Send, message: Message) -> None:
    body = memoryview(message.get("body", b""))
    while len(body) > PIECE_BYTES:
        await send({"type": "http.response.body", "body": body[:PIECE_BYTES], "more_body": True})
        body = body[PIECE_BYTES:]
    await send({**message, "body": body} if "body" in message else message)
