"""The history over HTTP: every sealed version of every run, as JSON or CSV, in pages."""

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Any

from exporter.attributes import NS
from exporter.errors import MalformedRequest
from exporter.ingest import Ingest
from exporter.publish.version_gauges import idle_ratio, utilization_ratio
from exporter.state import Annex, Clocked, Scope, SealedWindow
from exporter.statistics import Distribution

_LAST = 2**62


def list_runs(ingest: Ingest) -> list[dict[str, Any]]:
    """The runs of the page and those that have left it, by name."""
    finished = {
        run.run: {
            "run": run.run,
            "status": run.status,
            "attempt": run.attempt,
            "param_version": run.param_version,
            "sealed_version": run.sealed_version,
            "open_windows": 0,
        }
        for run in ingest.journal.runs()
    }
    live = {
        run.name: {
            "run": run.name,
            "status": run.status,
            "attempt": run.attempt,
            "param_version": run.published,
            "sealed_version": run.sealed,
            "open_windows": run.open_windows,
        }
        for run in ingest.snapshot.runs.values()
    }
    return [run for _, run in sorted({**finished, **live}.items())]


def list_versions(
    ingest: Ingest, run: str, *, first: int | None, last: int | None, limit: int, cursor: str
) -> dict[str, Any]:
    """One page of a run's versions, ascending by attempt and version. `next` is the cursor of the page behind it."""
    windows = ingest.journal.versions(
        run, after=_position(cursor), first=first or 0, last=_LAST if last is None else last, limit=limit + 1
    )
    page = windows[:limit]
    annexes = _annexes(ingest, run, page)
    return {
        "run": run,
        "versions": [_version(window, annexes.get((window.attempt, window.version), [])) for window in page],
        "next": f"{page[-1].attempt}.{page[-1].version}" if len(windows) > limit else None,
    }


def versions_csv(versions: dict[str, Any]) -> Iterator[str]:
    """A page of versions as CSV: one row per version, one column per value; what a version has not is empty."""
    rows = [dict(_flatten(version)) for version in versions["versions"]]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    for row in [dict(zip(columns, columns, strict=True)), *rows]:
        line = io.StringIO()
        csv.writer(line).writerow([row.get(column, "") for column in columns])
        yield line.getvalue()


def _position(cursor: str) -> tuple[int, int]:
    if not cursor:
        return (0, -1)
    attempt, _, version = cursor.partition(".")
    if not (attempt.isdigit() and version.isdigit() and cursor.isascii() and len(cursor) < 40):
        raise MalformedRequest(f"cursor must be the `next` of an earlier page, got {cursor!r}")
    return int(attempt), int(version)


def _annexes(ingest: Ingest, run: str, page: list[SealedWindow]) -> dict[tuple[int, int], list[Annex]]:
    found: dict[tuple[int, int], list[Annex]] = {}
    for attempt in sorted({window.attempt for window in page}):
        versions = [window.version for window in page if window.attempt == attempt]
        for annex in ingest.journal.annexes(run, attempt, min(versions), max(versions)):
            found.setdefault((attempt, annex.version), []).append(annex)
    return found


def _version(window: SealedWindow, annexes: list[Annex]) -> dict[str, Any]:
    return {
        "attempt": window.attempt,
        "param_version": window.version,
        "complete": not window.reasons,
        "reasons": list(window.reasons),
        "timestamp": window.timestamp_ns / NS,
        "train_steps": window.train_steps,
        "sample_count": window.sample_count,
        "metrics": _values(window.values),
        "trainer": _present(
            {"state_seconds": _seconds(window.trainer), "idle_ratio": idle_ratio(window.trainer)}
        ),
        "rollouters": {slot: _rollouter(times) for slot, times in window.rollouters.items()},
        "reported": window.reported,
        "annexes": {
            annex.kind: _present(
                {
                    "timestamp": annex.timestamp_ns / NS,
                    "sample_count": annex.sample_count,
                    "bytes": annex.size_bytes,
                    "metrics": _values(annex.values),
                    "reported": annex.reported or None,
                }
            )
            for annex in annexes
        },
    }


def _rollouter(times: Clocked) -> dict[str, Any]:
    return _present(
        {
            "state_seconds": _seconds(times),
            "idle_ratio": idle_ratio(times),
            "utilization_ratio": utilization_ratio(times),
        }
    )


def _seconds(times: Clocked) -> dict[str, float]:
    return {state: duration / NS for state, duration in times.state_ns.items()}


def _values(values: Scope) -> dict[str, Any]:
    spreads = {name: _spread(value) for name, value in values.distributions.items()}
    return {**values.scalars, **spreads, **values.user}


def _spread(value: Distribution) -> dict[str, Any]:
    low, high = value.extremes or (None, None)
    return _present({"count": value.count, "mean": value.mean, "min": low, "max": high, "std": value.std})


def _present(values: dict[str, Any]) -> dict[str, Any]:
    """What is undefined is left out: missing is not zero, and JSON has no NaN."""
    return {name: value for name, value in values.items() if value is not None}


def _flatten(value: dict[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for name, part in value.items():
        if isinstance(part, dict):
            yield from _flatten(part, f"{prefix}{name}.")
        elif isinstance(part, list):
            yield f"{prefix}{name}", " ".join(str(item) for item in part)
        else:
            yield f"{prefix}{name}", part
