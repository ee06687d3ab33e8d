"""Where a command reads the history: from a running exporter, or from the journal of one."""

import argparse
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import msgspec

from exporter.archive import Archive
from exporter.commands.connection import Connection, add_flags
from exporter.errors import ConfigError
from exporter.publish import backfill, history

_PAGE = 1000
"""Versions per page."""
_NAMED_RUNS = 10


class Source(Protocol):
    """`first` and `last` are param_versions, None without a bound; `cursor` is "<attempt>.<version>"."""

    def runs(self) -> list[dict[str, Any]]:
        """The runs as GET /api/v1/runs lists them."""

    def versions(
        self, run: str, *, first: int | None = None, last: int | None = None, cursor: str = ""
    ) -> Iterator[dict[str, Any]]:
        """The versions behind `cursor`, ascending by attempt and version, as wire.md shows them."""

    def openmetrics(self, run: str, *, first: int | None, last: int | None) -> Iterator[str]:
        """OpenMetrics texts that together hold every published version."""


class ServedHistory:
    """Asks a running exporter."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def runs(self) -> list[dict[str, Any]]:
        runs: list[dict[str, Any]] = self._connection.get("/api/v1/runs").json()["runs"]
        return runs

    def versions(
        self, run: str, *, first: int | None = None, last: int | None = None, cursor: str = ""
    ) -> Iterator[dict[str, Any]]:
        for page in self._pages(run, "json", first, last, cursor):
            yield from msgspec.json.decode(page)["versions"]

    def openmetrics(self, run: str, *, first: int | None, last: int | None) -> Iterator[str]:
        for page in self._pages(run, "openmetrics", first, last, ""):
            yield page.decode()

    def _pages(
        self, run: str, form: str, first: int | None, last: int | None, cursor: str
    ) -> Iterator[bytes]:
        following: str | None = cursor
        while following is not None:
            query = {"format": form, "from": first, "to": last, "limit": _PAGE, "cursor": following}
            answer = self._connection.get(f"/api/v1/runs/{quote(run, safe='')}/versions", query)
            following = answer.headers.get("x-next-cursor")
            yield answer.content


class JournalHistory:
    """Reads the journal of an exporter that may be running or not."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    def runs(self) -> list[dict[str, Any]]:
        """What the newest checkpoint knew of a run may be older than its newest version."""
        runs = {run["run"]: run for run in history.list_runs(self._archive)}
        for name, (attempt, version) in self._archive.newest().items():
            run = runs.setdefault(
                name, {"run": name, "status": "unknown", "param_version": version, "open_windows": 0}
            )
            if (attempt, version) > (run.get("attempt", 0), run.get("sealed_version", 0)):
                run |= {"attempt": attempt, "sealed_version": version}
        return [run for _, run in sorted(runs.items())]

    def versions(
        self, run: str, *, first: int | None = None, last: int | None = None, cursor: str = ""
    ) -> Iterator[dict[str, Any]]:
        for page in self._pages(run, first, last, cursor):
            yield from history.versions(page)

    def openmetrics(self, run: str, *, first: int | None, last: int | None) -> Iterator[str]:
        for page in self._pages(run, first, last, ""):
            yield backfill.versions_openmetrics(page).decode()

    def _pages(self, run: str, first: int | None, last: int | None, cursor: str) -> Iterator[history.Page]:
        following: str | None = cursor
        while following is not None:
            page = history.read_page(
                self._archive, run, first=first, last=last, limit=_PAGE, cursor=following
            )
            following = page.following
            yield page


def add_source_flags(parser: argparse.ArgumentParser) -> None:
    """The flags that `open_source` reads."""
    parser.add_argument(
        "--data-dir",
        metavar="DIR",
        type=Path,
        help="read the journal in this folder instead of asking an exporter",
    )
    add_flags(parser)


def open_source(flags: argparse.Namespace) -> Source:
    """Raises ConfigError for both --data-dir and --url, DataDirectoryError where --data-dir holds no journal."""
    if flags.data_dir is not None:
        if flags.url is not None:
            raise ConfigError("--data-dir reads a journal, --url asks an exporter: give one of them")
        return JournalHistory(Archive.open(flags.data_dir))
    return ServedHistory(Connection.from_flags(flags))


def unknown_run(name: str, runs: Iterable[str]) -> ConfigError:
    """The complaint about a run that is not among `runs`."""
    known = ", ".join(repr(run) for run in islice(runs, _NAMED_RUNS))
    return ConfigError(f"there is no run {name!r}; there are {known or 'none yet'}")
