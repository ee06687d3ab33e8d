"""`asyncrl history`: the runs, or the newest versions of one run, as a table with sparklines."""

import argparse
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from exporter import catalog
from exporter.commands import export
from exporter.commands.source import Source, add_source_flags, open_source, unknown_run
from exporter.commands.table import sparkline, table
from exporter.errors import ConfigError, ExporterError, Unreachable
from exporter.publish.history import END, flat_version

_USUAL_METRICS = ("reward", "policy_loss", "staleness", "trainer.idle_ratio")
_PLACES = ("{}", "metrics.{}", "metrics.{}.mean", "trainer.{}", "annexes.{}")
"""Where a chosen metric is looked for among the columns of the history, in this order."""


def main(argv: Sequence[str]) -> int:
    """Returns the exit code."""
    exporting = bool(argv) and argv[0] == "export"
    try:
        if exporting:
            export.run(export.parse(argv[1:]))
        else:
            _show(_parser().parse_args(argv))
    except ExporterError as error:
        print(f"asyncrl history{' export' if exporting else ''}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # `| head` has seen enough; Python's own flush at the exit shall not complain
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="asyncrl history",
        description="List the runs, or the newest versions of RUN, with sparklines of their metrics.",
        epilog="`asyncrl history export --help` tells how to take the history elsewhere.",
    )
    parser.add_argument("run", metavar="RUN", nargs="?", help="the run whose versions are listed")
    parser.add_argument(
        "--metric",
        action="append",
        metavar="NAME",
        help="a metric, or any column of the CSV export; may be repeated "
        f"(default: {', '.join(_USUAL_METRICS)})",
    )
    parser.add_argument(
        "--last", type=int, default=20, metavar="COUNT", help="how many versions (default: %(default)s)"
    )
    add_source_flags(parser)
    return parser


def _show(flags: argparse.Namespace) -> None:
    if flags.last < 1:
        raise ConfigError(f"--last must be 1 or more, got {flags.last}")
    source = open_source(flags)
    runs = {run["run"]: run for run in source.runs()}
    if flags.run is None and not runs:
        print("no runs yet")
        return
    if flags.run is not None and flags.run not in runs:
        raise unknown_run(flags.run, runs)
    shown = [run for run in runs.values() if flags.run in (None, run["run"])]
    versions = [_newest(source, run, flags.last, alone=flags.run is not None) for run in shown]
    for metric in flags.metric or ():
        _check_metric(metric, [version for each in versions for version in each])
    metrics = flags.metric or [
        metric
        for metric in _USUAL_METRICS
        if any(_find(version, metric) is not None for each in versions for version in each)
    ]
    if flags.run is None:
        print(_runs(shown, versions, metrics), end="")
    else:
        print(_versions(versions[0], metrics), end="")


def _check_metric(metric: str, versions: Sequence[dict[str, Any]]) -> None:
    """Raises ConfigError for a name that neither these versions nor the catalogue have."""
    columns = {column for version in versions for column in version}
    if (
        versions
        and metric not in catalog.METRIC_FAMILIES
        and not any(p.format(metric) in columns for p in _PLACES)
    ):
        found = {column.split(".")[1] for column in columns if column.startswith("metrics.")}
        raise ConfigError(f"no version shown has the metric {metric!r}; they have {', '.join(sorted(found))}")


def _runs(
    runs: Sequence[dict[str, Any]], versions: Sequence[Sequence[dict[str, Any]]], metrics: Sequence[str]
) -> str:
    rows = [
        [
            run["run"],
            run["status"],
            str(run["attempt"]),
            _shown(run["param_version"]),
            str(run["sealed_version"]),
            *(_trend([_find(version, metric) for version in newest]) for metric in metrics),
        ]
        for run, newest in zip(runs, versions, strict=True)
    ]
    return table(["run", "status", "attempt", "version", "sealed", *metrics], rows)


def _versions(versions: Sequence[dict[str, Any]], metrics: Sequence[str]) -> str:
    rows = [
        [
            str(version["attempt"]),
            str(version["param_version"]),
            datetime.fromtimestamp(version["timestamp"], UTC).strftime("%Y-%m-%d %H:%M:%SZ"),
            version["reasons"] or "yes",
            str(version["train_steps"]),
            _shown(version["sample_count"]),
            *(_shown(_find(version, metric)) for metric in metrics),
        ]
        for version in versions
    ]
    head = ["attempt", "version", "time", "complete", "steps", "samples", *metrics]
    trends = [
        [metric, *_trend_and_range([_find(version, metric) for version in versions])] for metric in metrics
    ]
    summary = table(["metric", "trend", "least", "greatest"], trends) if trends else ""
    return f"{table(head, rows)}\n{summary}"


def _trend_and_range(values: Sequence[float | None]) -> tuple[str, str, str]:
    known = [value for value in values if value is not None]
    return sparkline(values) or "-", _shown(min(known, default=None)), _shown(max(known, default=None))


def _newest(source: Source, run: dict[str, Any], last: int, *, alone: bool) -> list[dict[str, Any]]:
    """The newest versions of the run's current attempt, flat. Of a run among others that cannot be read, as one that
    the retention has just dropped, the others are shown nevertheless."""
    sealed = run["sealed_version"]
    behind = f"{run['attempt']}.{sealed - last}" if sealed >= last else f"{run['attempt'] - 1}.{END}"
    try:
        return [flat_version(version) for version in source.versions(run["run"], cursor=behind)][-last:]
    except Unreachable as error:
        if alone:
            raise
        print(f"asyncrl history: {error}", file=sys.stderr)
        return []


def _find(version: dict[str, Any], metric: str) -> float | None:
    for place in _PLACES:
        value = version.get(place.format(metric))
        if isinstance(value, int | float):
            return float(value)
    return None


def _trend(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{sparkline(values)} {known[-1]:.4g}" if known else "-"


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
