"""The journal: every request before it is acknowledged, every decision before it is shown. SQLite, one file.

    events      requests as they came (canonical protobuf) and decisions, since the newest checkpoint
    checkpoint  the ledger's state after the event it names; replaying the events behind it restores the rest
    versions, annexes, runs   history: what is sealed, for as long as the retention keeps it
    pushes      which of it OTLP push has yet to deliver

One writer (the ingest thread); history is read through `archive.Archive`, over connections of its own.
"""

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Self

import msgspec

from exporter.errors import DataDirectoryError
from exporter.state import Annex, RunSummary, SealedWindow, State
from exporter.torn_tail import written_frames

SCHEMA: Final = 1
JOURNAL_FILE: Final = "journal.sqlite"
_LOCK: Final = "lock"
_MODES: Final = {"wal": "WAL", "rollback": "DELETE"}
"""Of SQLite, by our word. In WAL mode all processes share memory, which a network file system cannot give."""
# With rowid: without, SQLite keeps a quarter of a page of each row and puts the rest on a page of its own.
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS events (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, wall REAL NOT NULL, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS checkpoint (id INTEGER PRIMARY KEY CHECK (id = 1), event INTEGER NOT NULL,
    body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS versions (run TEXT, attempt INTEGER, version INTEGER, sealed_at REAL NOT NULL,
    body BLOB NOT NULL, PRIMARY KEY (run, attempt, version));
CREATE TABLE IF NOT EXISTS annexes (run TEXT, attempt INTEGER, version INTEGER, kind TEXT, body BLOB NOT NULL,
    PRIMARY KEY (run, attempt, version, kind));
CREATE TABLE IF NOT EXISTS pushes (id INTEGER PRIMARY KEY, queued_at REAL NOT NULL, run TEXT, attempt INTEGER,
    version INTEGER, kind TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS runs (run TEXT PRIMARY KEY, ended_at REAL, body BLOB NOT NULL) WITHOUT ROWID;
DROP TABLE IF EXISTS proof;
"""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    """`traces` and `metrics`: the body is the request. Others: see `ingest.RunDecision` and `sealing.Seal`."""
    wall: float
    body: bytes


class Journal:
    """Raises sqlite3.Error where the disk does not take what it is given; nothing is committed then."""

    def __init__(self, path: Path, lock: int, connection: sqlite3.Connection, torn_frames: int = 0) -> None:
        self.path = path
        self.torn_frames = torn_frames
        """Pages at the end of SQLite's log that were no whole transaction when the journal was opened."""
        self._lock = lock
        self._connection = connection
        self._file = _identity(path)
        self.pushing = False
        """Whether what is stored is queued for OTLP push, too; see `push_queue`."""

    @classmethod
    def open(cls, directory: Path, *, mode: str = "wal") -> Self:
        """`mode` is one of `config.CHOICES["journal_mode"]`. Raises DataDirectoryError."""
        try:
            directory.mkdir(parents=True, exist_ok=True)
            lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            reason = "it is a file" if isinstance(error, FileExistsError) else error.strerror
            raise DataDirectoryError(f"cannot use {directory} as data directory: {reason}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            raise DataDirectoryError(
                f"another exporter uses the data directory {directory}; stop it, or choose another --data-dir"
            ) from error
        path = directory / JOURNAL_FILE
        try:
            connection, torn_frames = _connect(path, mode)
        except (sqlite3.Error, DataDirectoryError) as error:
            os.close(lock)
            raise DataDirectoryError(f"cannot open the journal {path}: {error}") from error
        return cls(path, lock, connection, torn_frames)

    def close(self) -> None:
        self._connection.close()
        os.close(self._lock)

    def load(self) -> tuple[State, list[Event]]:
        """The state of the newest checkpoint, and the events behind it."""
        row = self._connection.execute("SELECT event, body FROM checkpoint").fetchone()
        after, state = (0, State()) if row is None else (row[0], msgspec.msgpack.decode(row[1], type=State))
        rows = self._connection.execute(
            "SELECT kind, wall, body FROM events WHERE id > ? ORDER BY id", (after,)
        )
        return state, [Event(kind=kind, wall=wall, body=body) for kind, wall, body in rows]

    def write(self, events: Iterable[Event], kept: Iterable[SealedWindow | Annex | RunSummary]) -> None:
        """Append events and store history, in one transaction that is on disk on return."""
        self._check_file()
        with self._connection:
            self._connection.executemany(
                "INSERT INTO events (kind, wall, body) VALUES (?, ?, ?)",
                ((event.kind, event.wall, event.body) for event in events),
            )
            for item in kept:
                self._store(item)

    def prove_room(self, size: int) -> None:
        """Write and drop this many bytes: whether a disk that took nothing takes that much again."""
        self._check_file()
        with self._connection:
            self._connection.execute("CREATE TABLE IF NOT EXISTS proof (body BLOB)")
            self._connection.execute("INSERT INTO proof VALUES (zeroblob(?))", (size,))
        self._connection.execute("DROP TABLE proof")

    def _check_file(self) -> None:
        """SQLite would go on writing to a file that was deleted, for nobody."""
        if _identity(self.path) != self._file:
            raise sqlite3.OperationalError(
                f"{self.path} was deleted or replaced; put the file back, or restart the exporter on what is there"
            )

    def _store(self, item: SealedWindow | Annex | RunSummary) -> None:
        if isinstance(item, RunSummary):
            summary = (item.run, item.ended_at, msgspec.json.encode(item))
            self._connection.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?)", summary)
            return
        body = msgspec.msgpack.encode(item)
        if isinstance(item, SealedWindow):
            kind, pushed = "", item.published  # the partial window at the end has no place among the versions
            row = (item.run, item.attempt, item.version, item.sealed_at, body)
            done = self._connection.execute("INSERT OR IGNORE INTO versions VALUES (?, ?, ?, ?, ?)", row)
        else:
            kind, pushed = item.kind, True
            key = (item.run, item.attempt, item.version, item.kind, body)
            done = self._connection.execute("INSERT OR IGNORE INTO annexes VALUES (?, ?, ?, ?, ?)", key)
        if self.pushing and pushed and done.rowcount:
            self._connection.execute(
                "INSERT INTO pushes (queued_at, run, attempt, version, kind) VALUES (?, ?, ?, ?, ?)",
                (time.time(), item.run, item.attempt, item.version, kind),
            )

    def checkpoint(self, state: State, runs: Iterable[RunSummary]) -> None:
        """Store the state as it is after the newest event, and drop the events."""
        with self._connection:
            newest = self._connection.execute("SELECT coalesce(max(id), 0) FROM events").fetchone()[0]
            before = self._connection.execute("SELECT coalesce(max(event), 0) FROM checkpoint").fetchone()[0]
            body = msgspec.msgpack.encode(state)
            self._connection.execute(
                "INSERT OR REPLACE INTO checkpoint VALUES (1, ?, ?)", (max(newest, before), body)
            )
            # The newest event stays: its id must not be given out again.
            self._connection.execute("DELETE FROM events WHERE id < ?", (newest,))
            for run in runs:
                self._store(run)

    def expire(self, ended_before: float) -> None:
        """Drop the history of runs that ended before this wall time, and give free pages back to the disk."""
        with self._connection:
            for table in ("versions", "annexes"):
                self._connection.execute(
                    f"DELETE FROM {table} WHERE run IN (SELECT run FROM runs WHERE ended_at < ?)",
                    (ended_before,),
                )
            self._connection.execute("DELETE FROM runs WHERE ended_at < ?", (ended_before,))
        self._connection.executescript("PRAGMA incremental_vacuum")  # `execute` would free one page
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    @property
    def bytes(self) -> int:
        """Size on disk, SQLite's own log included."""
        return sum(_size(self.path.with_name(self.path.name + suffix)) for suffix in ("", "-wal", "-journal"))

    def newest_versions(self, run: str, limit: int, *, stride: int = 1) -> list[SealedWindow]:
        """The newest windows of a run that `stride` divides, ascending."""
        rows = self._connection.execute(
            "SELECT body FROM versions WHERE run = ? AND version % ? = 0 "
            "ORDER BY attempt DESC, version DESC LIMIT ?",
            (run, stride, limit),
        ).fetchall()
        return [msgspec.msgpack.decode(body, type=SealedWindow) for (body,) in reversed(rows)]

    def newest_annexes(self, run: str, limit: int, *, stride: int, every: tuple[int, int]) -> list[Annex]:
        """All annexes of the newest `limit` versions that have one and that `stride` divides, or that are at or
        above (attempt, version) `every`."""
        rows = self._connection.execute(
            "SELECT body FROM annexes WHERE run = ?1 AND (attempt, version) IN"
            " (SELECT DISTINCT attempt, version FROM annexes WHERE run = ?1"
            " AND (version % ?2 = 0 OR (attempt, version) >= (?3, ?4))"
            " ORDER BY attempt DESC, version DESC LIMIT ?5)",
            (run, stride, *every, limit),
        ).fetchall()
        return [msgspec.msgpack.decode(body, type=Annex) for (body,) in rows]


def _identity(path: Path) -> tuple[int, int] | None:
    """Device and inode; None where there is no such file."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _size(path: Path) -> int:
    """0 where there is no such file: SQLite's own come and go."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _connect(path: Path, mode: str) -> tuple[sqlite3.Connection, int]:
    """The connection, and the torn frames of the log that the last process left."""
    written = written_frames(path.with_name(path.name + "-wal"))
    connection = sqlite3.connect(path, check_same_thread=False)
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    if found > SCHEMA:
        connection.close()
        raise DataDirectoryError(f"it has schema {found}, this exporter knows {SCHEMA}; use a newer exporter")
    _, taken, _ = connection.execute("PRAGMA wal_checkpoint").fetchone()  # -1 in the other mode
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA secure_delete = OFF")  # Debian's SQLite writes zeros over every event it drops
    connection.execute(f"PRAGMA journal_mode = {_MODES[mode]}")
    connection.execute("PRAGMA synchronous = FULL")
    connection.executescript(_TABLES)
    connection.execute(f"PRAGMA user_version = {SCHEMA}")
    connection.commit()
    return connection, max(written - max(taken, 0), 0)
