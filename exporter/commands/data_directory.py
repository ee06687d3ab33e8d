"""What there is to say of the data directory that an exporter uses."""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from exporter.archive import Archive
from exporter.commands.finding import Finding
from exporter.commands.source import JournalHistory
from exporter.errors import DataDirectoryError
from exporter.journal import JOURNAL_FILE

_MOUNTS = Path("/proc/self/mounts")
_NETWORK_TYPES = ("nfs", "cifs", "smb", "9p", "afs", "beegfs", "ceph", "fuse.", "glusterfs", "gpfs", "lustre")
_LEAST_FREE_BYTES = 1024**3


def examine(directory: Path) -> Iterator[Finding]:
    """Whether the folder holds a journal we can read, can be written, has room and suits SQLite's mode."""
    if not (directory / JOURNAL_FILE).is_file():
        yield Finding(False, f"{directory} holds no journal; give the --data-dir of the exporter")
        return
    try:
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        yield Finding(
            False, f"{directory} cannot be written: {error.strerror}; give it to the exporter's user"
        )
        return
    free = shutil.disk_usage(directory).free
    yield Finding(
        free >= _LEAST_FREE_BYTES,
        f"{directory} can be written, {free / 1024**3:.1f} GiB are free"
        + ("" if free >= _LEAST_FREE_BYTES else "; a full disk stops the ingest until there is room again"),
    )
    yield from _journal(directory)


def _journal(directory: Path) -> Iterator[Finding]:
    try:
        runs = len(JournalHistory(Archive.open(directory)).runs())
        mode = _mode(directory / JOURNAL_FILE)
    except (DataDirectoryError, sqlite3.Error) as error:
        yield Finding(False, str(error))
        return
    yield Finding(True, f"its journal can be read and knows {runs} runs")
    kind = _file_system(directory)
    if kind.startswith(_NETWORK_TYPES):
        yield Finding(
            mode == "delete",
            f"it is on {kind}, where the journal needs `journal_mode: rollback`; it has {mode}",
        )


def _mode(path: Path) -> str:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as journal:
        mode: str = journal.execute("PRAGMA journal_mode").fetchone()[0]
    return mode


def _file_system(directory: Path) -> str:
    """The type of the file system that holds the directory; empty where the system does not say."""
    try:
        mounts = [line.split() for line in _MOUNTS.read_text(encoding="utf-8").splitlines()]
    except OSError:
        return ""
    place = os.path.realpath(directory)
    holding = [(point, kind) for _, point, kind, *_ in mounts if os.path.commonpath([place, point]) == point]
    return max(holding, key=lambda mount: len(mount[0]), default=("", ""))[1]
