"""The connections of one listener: no more than a bound, none that stalls for ever.

Nobody is turned away. At the bound the connection that has been silent longest makes room for the new one, so
that a crowd of half-open connections costs the crowd its own, and a scraper or sender connects as ever.
"""

import socket
import time
from collections import Counter, OrderedDict
from contextlib import suppress
from typing import Any, Final

BACKLOG: Final = 256
"""Connections that wait to be accepted."""
STALLED_SECONDS: Final = 120.0
"""Above every deadline of the server for a quiet connection; what is quiet for longer has unread data in it."""


class Connections:
    """All that are open, the one that has been silent longest first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._heard: OrderedDict[_Connection, float] = OrderedDict()
        self.ended = Counter[str]()
        """Those that were ended here, by reason: `crowded`, `stalled`."""

    def __len__(self) -> int:
        return len(self._heard)

    @property
    def newest(self) -> "_Connection | None":
        """The one that moved a byte last."""
        return next(reversed(self._heard), None)

    def end_stalled(self, now: float) -> None:
        """Ends what moved no byte in either direction for STALLED_SECONDS; `now` is monotonic."""
        while self._heard and now - next(iter(self._heard.values())) > STALLED_SECONDS:
            self._end_most_silent("stalled")

    def add(self, connection: "_Connection") -> None:
        """A new one."""
        if len(self._heard) >= self._most:
            self._end_most_silent("crowded")
        self._heard[connection] = time.monotonic()

    def note(self, connection: "_Connection") -> None:
        """It has just moved a byte."""
        if connection in self._heard:
            self._heard[connection] = time.monotonic()
            self._heard.move_to_end(connection)

    def remove(self, connection: "_Connection") -> None:
        """It is closed."""
        self._heard.pop(connection, None)

    def _end_most_silent(self, reason: str) -> None:
        connection, _ = self._heard.popitem(last=False)
        self.ended[reason] += 1
        with suppress(OSError):  # the client was faster
            connection.shutdown(socket.SHUT_RDWR)  # the event loop sees its end, and closes it


class Listener(socket.socket):
    """A listening socket that keeps book of what it accepts. An event loop takes it as any other."""

    connections: Connections

    @classmethod
    def bind_to(cls, host: str, port: int, *, most: int) -> "Listener":
        """Bound and listening: connections wait in the backlog until somebody accepts. Raises OSError."""
        family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = cls(family, kind, protocol)
        listener.connections = Connections(most)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(where)
            listener.listen(BACKLOG)
        except OSError:
            listener.close()
            raise
        return listener

    def accept(self) -> tuple[socket.socket, Any]:
        plain, address = super().accept()
        connection = _Connection(plain.family, plain.type, plain.proto, fileno=plain.detach())
        connection.connections, connection.peer = self.connections, str(address[0])
        self.connections.add(connection)
        return connection, address


class _Connection(socket.socket):
    """Reports what the event loop does with it."""

    connections: Connections
    peer: str
    """The address of the other side, which a socket that was reset no longer tells."""

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        self.connections.note(self)
        return super().recv(size, flags)

    def recv_into(self, buffer: Any, size: int = 0, flags: int = 0) -> int:
        self.connections.note(self)
        return super().recv_into(buffer, size, flags)

    def send(self, data: Any, flags: int = 0, /) -> int:
        self.connections.note(self)
        return super().send(data, flags)

    def sendmsg(self, *arguments: Any) -> int:
        self.connections.note(self)
        return super().sendmsg(*arguments)

    def close(self) -> None:
        self.connections.remove(self)
        super().close()
