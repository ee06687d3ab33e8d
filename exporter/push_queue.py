"""The versions and annexes that OTLP push has yet to deliver: rows of the journal that point into its history.

A row is made in the transaction that stores what it points to, and deleted once the receiver has answered.
An annex waits for the window of its version, whose time is its own; version 0 has none.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from exporter.state import Annex, SealedWindow

_BUSY_SECONDS: Final = 30.0
"""How long a deletion waits for the writer's commit."""
_FRONT: Final = """
SELECT pushes.id, versions.body, annexes.body FROM pushes
LEFT JOIN versions USING (run, attempt, version) LEFT JOIN annexes USING (run, attempt, version, kind)
WHERE pushes.kind = '' OR pushes.version = 0
    OR EXISTS (SELECT 1 FROM versions AS above WHERE above.run = pushes.run AND above.attempt = pushes.attempt
        AND above.version >= pushes.version)
    OR EXISTS (SELECT 1 FROM versions AS later WHERE later.run = pushes.run AND later.attempt > pushes.attempt)
ORDER BY pushes.id LIMIT ?
"""


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """One row. `item` is None where the retention was faster."""

    id: int
    item: SealedWindow | Annex | None
    time_ns: int = 0
    """The time of the version; of an annex whose version has no window, the annex's own."""


class Depth(NamedTuple):
    waiting: int
    oldest: float | None
    """The exporter's wall clock when the oldest row was made, seconds."""


class PushQueue:
    """For one thread. Raises sqlite3.Error where the disk does not take a deletion."""

    def __init__(self, journal: Path) -> None:
        self._connection = sqlite3.connect(journal, timeout=_BUSY_SECONDS, check_same_thread=False)
        self._connection.execute("PRAGMA synchronous = FULL")

    def front(self, limit: int) -> list[Waiting]:
        """The first rows that can go, in the order in which they came."""
        return [_waiting(*row) for row in self._connection.execute(_FRONT, (limit,)).fetchall()]

    def settle(self, ids: Sequence[int]) -> None:
        """These rows are done with; it is on disk on return."""
        with self._connection:
            self._connection.executemany("DELETE FROM pushes WHERE id = ?", ((row,) for row in ids))

    def close(self) -> None:
        self._connection.close()


def read_depth(journal: Path) -> Depth:
    """How much waits now; from any thread, over a connection of its own."""
    with closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True, timeout=_BUSY_SECONDS)) as reader:
        return Depth(*reader.execute("SELECT count(*), min(queued_at) FROM pushes").fetchone())


def _waiting(row: int, window_body: bytes | None, annex_body: bytes | None) -> Waiting:
    window = None if window_body is None else msgspec.msgpack.decode(window_body, type=SealedWindow)
    annex = None if annex_body is None else msgspec.msgpack.decode(annex_body, type=Annex)
    item = annex or window
    time_ns = 0 if item is None else (window or item).timestamp_ns
    return Waiting(id=row, item=item, time_ns=time_ns)
