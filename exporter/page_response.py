"""Sends a page that is put together only piece by piece.

What it is made of is shared with the pages after it, so that one that waits for its reader holds next to nothing of
its own.
"""

from collections.abc import Iterator, Mapping, Sequence

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from exporter.pacing import PIECE_BYTES


class PageResponse(Response):
    """200, and the texts one behind the other."""

    def __init__(self, texts: Sequence[bytes], *, headers: Mapping[str, str]) -> None:
        super().__init__(headers={**headers, "content-length": str(sum(map(len, texts)))})
        self._texts = texts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for piece in _pieces(self._texts):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def _pieces(texts: Sequence[bytes]) -> Iterator[bytes]:
    """Texts joined to about PIECE_BYTES: each send costs a turn of the event loop. A single larger text (a gzip body)
    is passed on whole; `Paced` cuts it."""
    gathered: list[bytes] = []
    size = 0
    for text in texts:
        if gathered and size + len(text) > PIECE_BYTES:
            yield b"".join(gathered)
            gathered, size = [], 0
        gathered.append(text)
        size += len(text)
    yield b"".join(gathered)
