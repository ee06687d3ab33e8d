"""`asyncrl history export`: the history of runs as a file for Prometheus, a spreadsheet or a data frame.

openmetrics   samples at the times of the versions, for `promtool tsdb create-blocks-from openmetrics`
csv, parquet  a row per version, a column per value; what a version has not is empty
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from exporter.commands.openmetrics_file import OpenMetricsFile
from exporter.commands.rows import Rows
from exporter.commands.source import Source, add_source_flags, open_source, unknown_run
from exporter.errors import ConfigError, UnfaithfulExport

_FORMATS = ("openmetrics", "csv", "parquet")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The flags of the command."""
    parser = argparse.ArgumentParser(
        prog="asyncrl history export",
        description="Write the versions of runs: for Prometheus, with the names of /metrics and the time of each "
        "version, or as a table with a row per version.",
    )
    parser.add_argument("runs", metavar="RUN", nargs="*", help="the runs (default: all)")
    parser.add_argument("--format", required=True, choices=_FORMATS, help="form of the file")
    parser.add_argument("--output", metavar="FILE", type=Path, help="where to (default: standard output)")
    parser.add_argument("--from", dest="first", type=int, metavar="VERSION", help="first param_version")
    parser.add_argument("--to", dest="last", type=int, metavar="VERSION", help="last param_version")
    parser.add_argument(
        "--blocks",
        metavar="DIR",
        type=Path,
        help="with openmetrics: have promtool make blocks there, and compare their samples with those written",
    )
    add_source_flags(parser)
    return parser.parse_args(argv)


def run(flags: argparse.Namespace) -> None:
    """Raises ExporterError; then nothing is left at --output."""
    if flags.blocks is not None and flags.format != "openmetrics":
        raise ConfigError(f"--blocks is for --format openmetrics, not {flags.format}")
    if flags.format == "parquet" and flags.output is None:
        raise ConfigError("--format parquet needs --output FILE")
    if flags.first is not None and flags.last is not None and flags.first > flags.last:
        raise ConfigError(f"--from {flags.first} is above --to {flags.last}; no version is in between")
    source = open_source(flags)
    known = [run["run"] for run in source.runs()]
    for name in flags.runs:
        if name not in known:
            raise unknown_run(name, known)
    runs = flags.runs or known
    if flags.format == "openmetrics":
        _export_openmetrics(source, runs, flags)
    else:
        _export_rows(source, runs, flags)


def _export_openmetrics(source: Source, runs: Sequence[str], flags: argparse.Namespace) -> None:
    content = OpenMetricsFile()
    for name in runs:
        for text in source.openmetrics(name, first=flags.first, last=flags.last):
            content.add(text)
    if flags.blocks is None:
        with _output(flags.output) as file:
            content.write(file)
    else:
        with tempfile.TemporaryDirectory(prefix="asyncrl-") as folder:
            path = flags.output or Path(folder) / "history.om"
            with _output(path) as file:
                content.write(file)
            _make_blocks(path, flags.blocks, samples=content.samples)
    print(f"{content.samples} samples of {len(runs)} runs", file=sys.stderr)


def _make_blocks(path: Path, blocks: Path, *, samples: int) -> None:
    """Promtool drops duplicates silently, so what is in the blocks is counted."""
    try:
        blocks.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot make the folder {blocks}: {error.strerror}") from error
    before = set(blocks.glob("*/meta.json"))
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(path), str(blocks)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise ConfigError("promtool is not installed; it comes with Prometheus") from None
    if done.returncode != 0:
        raise UnfaithfulExport(f"promtool failed: {' '.join((done.stderr or done.stdout).split())}")
    made = set(blocks.glob("*/meta.json")) - before
    stored = sum(json.loads(meta.read_text(encoding="utf-8"))["stats"]["numSamples"] for meta in made)
    if stored != samples:
        raise UnfaithfulExport(f"{samples} samples were written, the blocks in {blocks} hold {stored}")


def _export_rows(source: Source, runs: Sequence[str], flags: argparse.Namespace) -> None:
    with tempfile.TemporaryFile(prefix="asyncrl-") as spool:
        rows = Rows(spool)
        for name in runs:
            for version in source.versions(name, first=flags.first, last=flags.last):
                rows.add(name, version)
        with _output(flags.output) as file:
            if flags.format == "csv":
                rows.write_csv(file)
            else:
                rows.write_parquet(file)
    print(f"{rows.count} versions of {len(runs)} runs", file=sys.stderr)


@contextmanager
def _output(path: Path | None) -> Iterator[IO[bytes]]:
    """The file, which is there only once all of it is; or standard output."""
    if path is None:
        yield sys.stdout.buffer
        return
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            yield file
        os.replace(part, path)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)
