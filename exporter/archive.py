"""The history in a journal, read only: from any thread of the exporter, or by a command beside it or without it."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Self

import msgspec

from exporter.errors import DataDirectoryError
from exporter.journal import JOURNAL_FILE, SCHEMA
from exporter.state import Annex, RunSummary, SealedWindow

_BUSY_SECONDS = 10.0
_NOT_WRITABLE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
"""The low byte of SQLite's codes; the others say more."""


class Archive:
    """Each call reads over a connection of its own, so that no reader holds up the writer."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def open(cls, directory: Path) -> Self:
        """The archive of a data directory that an exporter has used. Raises DataDirectoryError."""
        path = directory / JOURNAL_FILE
        if not path.is_file():
            raise DataDirectoryError(f"{directory} holds no journal; give the --data-dir of an exporter")
        archive = cls(path)
        try:
            ((found,),) = archive._read("PRAGMA user_version")
        except sqlite3.Error as error:
            raise DataDirectoryError(
                f"cannot read the journal {path}: {error}; is it whole, and may you read it? "
                "A log beside it wants the exporter's user"
            ) from error
        if found > SCHEMA:
            raise DataDirectoryError(
                f"the journal {path} has schema {found}, this version knows {SCHEMA}; use a newer one"
            )
        return archive

    def versions(
        self, run: str, *, after: tuple[int, int], first: int, last: int, limit: int
    ) -> list[SealedWindow]:
        """Up to `limit` windows behind (attempt, version) `after`, first <= version <= last, ascending."""
        rows = self._read(
            "SELECT body FROM versions WHERE run = ? AND (attempt, version) > (?, ?) AND version BETWEEN ? AND ?"
            " ORDER BY attempt, version LIMIT ?",
            *(run, *after, first, last, limit),
        )
        return [msgspec.msgpack.decode(body, type=SealedWindow) for (body,) in rows]

    def sealed(self, run: str) -> tuple[int, int]:
        """The newest sealed (attempt, version) of a run, (0, 0) before the first."""
        rows = self._read(
            "SELECT attempt, version FROM versions WHERE run = ? ORDER BY attempt DESC, version DESC LIMIT 1",
            run,
        )
        return rows[0] if rows else (0, 0)

    def annexes(
        self, run: str, *, after: tuple[int, int], until: tuple[int, int], first: int, last: int
    ) -> list[Annex]:
        """The annexes behind (attempt, version) `after`, up to `until`, of first <= version <= last, ascending."""
        rows = self._read(
            "SELECT body FROM annexes WHERE run = ? AND (attempt, version) > (?, ?) AND (attempt, version) <= (?, ?)"
            " AND version BETWEEN ? AND ? ORDER BY attempt, version, kind",
            *(run, *after, *until, first, last),
        )
        return [msgspec.msgpack.decode(body, type=Annex) for (body,) in rows]

    def runs(self) -> list[RunSummary]:
        """The runs as the newest checkpoint knows them, by name."""
        rows = self._read("SELECT body FROM runs ORDER BY run")
        return [msgspec.json.decode(body, type=RunSummary) for (body,) in rows]

    def newest(self) -> dict[str, tuple[int, int]]:
        """Of every run that has a sealed version the newest (attempt, version), by name."""
        rows = self._read(
            "SELECT run, attempt, max(version) FROM versions GROUP BY run, attempt ORDER BY 1, 2"
        )
        return {run: (attempt, version) for run, attempt, version in rows}

    def _read(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        try:
            return self._read_as("mode=ro", statement, values)
        except sqlite3.OperationalError as error:
            logs = [self._path.with_name(self._path.name + suffix) for suffix in ("-wal", "-journal")]
            if error.sqlite_errorcode & 0xFF not in _NOT_WRITABLE or any(log.exists() for log in logs):
                raise
            # Where we may not write SQLite cannot share its log with a writer. Without a log there is no writer.
            return self._read_as("immutable=1", statement, values)

    def _read_as(self, mode: str, statement: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(f"file:{self._path}?{mode}", uri=True, timeout=_BUSY_SECONDS)) as reader:
            return reader.execute(statement, values).fetchall()
