"""TLS of a listener that tells when a handshake fails: asyncio closes such a connection without a word to anybody,
and without the alert that tells the client why.

ServerContext.wrap_bio -> _Handshake.do_handshake --fails--> ServerContext.on_failure(error, what the client shall get)
"""

import ssl
from collections.abc import Callable
from typing import Final

_PLAIN_HTTP: Final = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    b"this listener speaks TLS: ask for https://\n"
)

OnFailure = Callable[[ssl.SSLError, bytes], None]


class ServerContext(ssl.SSLContext):
    """A context of a server. `on_failure` is called in the event loop."""

    on_failure: OnFailure

    def __new__(cls) -> "ServerContext":
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self) -> None:
        self.sslobject_class = _Handshake
        self.on_failure = lambda error, answer: None

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """What asyncio speaks TLS with, for one connection."""
        made = super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        if isinstance(made, _Handshake):
            made.outgoing, made.on_failure = outgoing, self.on_failure
        return made


class _Handshake(ssl.SSLObject):
    outgoing: ssl.MemoryBIO
    on_failure: OnFailure

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            self.on_failure(error, _PLAIN_HTTP if error.reason == "HTTP_REQUEST" else self.outgoing.read())
            raise
