"""Versions as the rows of a table whose columns are known only when all rows are: they wait in a temporary file."""

from collections.abc import Iterator
from itertools import islice
from typing import IO, Any

import msgspec

from exporter.publish.history import csv_lines, flat_version

_ROW_GROUP = 10_000


class Rows:
    """`spool` is an empty file that can be read and written."""

    def __init__(self, spool: IO[bytes]) -> None:
        self.count = 0
        self._spool = spool
        self._kinds: dict[str, type] = {}
        """Column -> the narrowest type that holds all its values, in the order of first appearance."""

    def add(self, run: str, version: dict[str, Any]) -> None:
        """A version as the history shows it."""
        row = {"run": run, **flat_version(version)}
        for column, value in row.items():
            kind = self._kinds.setdefault(column, type(value))
            if kind is int and isinstance(value, float):
                self._kinds[column] = float
        self._spool.write(msgspec.json.encode(row) + b"\n")
        self.count += 1

    def _rows(self) -> Iterator[dict[str, Any]]:
        self._spool.seek(0)
        for line in self._spool:
            yield msgspec.json.decode(line)

    def write_csv(self, file: IO[bytes]) -> None:
        """A head and a line per row."""
        for line in csv_lines(self._rows(), list(self._kinds)):
            file.write(line.encode())

    def write_parquet(self, file: IO[bytes]) -> None:
        """Needs pyarrow."""
        import pyarrow
        from pyarrow import parquet

        types = {bool: pyarrow.bool_(), int: pyarrow.int64(), float: pyarrow.float64(), str: pyarrow.string()}
        schema = pyarrow.schema([(column, types[kind]) for column, kind in self._kinds.items()])
        rows = self._rows()
        with parquet.ParquetWriter(file, schema) as writer:
            while group := list(islice(rows, _ROW_GROUP)):
                writer.write_table(pyarrow.Table.from_pylist(group, schema=schema))
