"""The history: every sealed version of every run, in pages, as JSON or CSV."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

import msgspec

from exporter.archive import Archive
from exporter.attributes import NS
from exporter.errors import MalformedRequest
from exporter.publish.version_gauges import idle_ratio, utilization_ratio
from exporter.snapshot import RunSnapshot
from exporter.state import Annex, Clocked, RunSummary, Scope, SealedWindow
from exporter.statistics import Distribution

END: Final = 2**62
"""Beyond every version."""


class Page(NamedTuple):
    """Consecutive versions of a run, ascending by attempt and version."""

    run: str
    windows: list[SealedWindow]
    annexes: dict[tuple[int, int], list[Annex]]
    """By (attempt, version); what nobody trained, as version 0, has no window."""
    following: str | None
    """The cursor of the page behind it."""


def list_runs(archive: Archive, on_page: Iterable[RunSnapshot] = ()) -> list[dict[str, Any]]:
    """The runs that the archive knows, and those on the page as they are now, by name."""
    archived = {run.run: _archived(run) for run in archive.runs()}
    live = {
        run.name: {
            "run": run.name,
            "status": run.status,
            "attempt": run.attempt,
            "param_version": run.published,
            "sealed_version": run.sealed,
            "open_windows": run.open_windows,
        }
        for run in on_page
    }
    return [run for _, run in sorted({**archived, **live}.items())]


def _archived(run: RunSummary) -> dict[str, Any]:
    return {
        "run": run.run,
        "status": run.status,
        "attempt": run.attempt,
        "param_version": run.param_version,
        "sealed_version": run.sealed_version,
        "open_windows": 0,
    }


def read_page(
    archive: Archive, run: str, *, first: int | None, last: int | None, limit: int, cursor: str
) -> Page:
    """Up to `limit` versions behind `cursor`, with all annexes so far. What is said of a version that is yet to be
    sealed waits for its window."""
    after, span = _position(cursor), {"first": first or 0, "last": END if last is None else last}
    sealed = archive.sealed(run)  # asked first: what is sealed meanwhile hides nothing
    windows = {
        (window.attempt, window.version): window
        for window in archive.versions(run, after=after, limit=limit + 1, **span)
    }
    until = max(windows) if len(windows) > limit else (END, END)
    annexes: dict[tuple[int, int], list[Annex]] = {}
    for annex in archive.annexes(run, after=after, until=until, **span):
        at = (annex.attempt, annex.version)
        if at in windows or at <= sealed or annex.untrained or annex.version == 0:
            annexes.setdefault(at, []).append(annex)
    found = sorted(windows.keys() | annexes.keys())
    page = set(found[:limit])
    return Page(
        run=run,
        windows=[window for at, window in windows.items() if at in page],
        annexes={at: said for at, said in annexes.items() if at in page},
        following="{}.{}".format(*found[limit - 1]) if len(found) > limit else None,
    )


def versions_json(page: Page) -> bytes:
    """Strict JSON; wire.md shows it."""
    return msgspec.json.encode({"run": page.run, "versions": list(versions(page)), "next": page.following})


def versions_csv(page: Page) -> bytes:
    """One row per version, one column per value; what a version has not is empty."""
    rows = [flat_version(version) for version in versions(page)]
    return "".join(csv_lines(rows, list(dict.fromkeys(name for row in rows for name in row)))).encode()


def versions(page: Page) -> Iterator[dict[str, Any]]:
    """Each version as plain data."""
    windows = {(window.attempt, window.version): window for window in page.windows}
    for key in sorted(windows.keys() | page.annexes.keys()):
        annexes = page.annexes.get(key, [])
        yield _version(windows[key] if key in windows else _without_window(annexes), annexes)


def _without_window(annexes: Sequence[Annex]) -> SealedWindow:
    """What nobody trained, as version 0: nothing is missing, and nothing is there but the annexes."""
    return SealedWindow(
        run=annexes[0].run,
        attempt=annexes[0].attempt,
        version=annexes[0].version,
        published=True,
        reasons=(),
        timestamp_ns=min(annex.timestamp_ns for annex in annexes),
        sealed_at=min(annex.arrived_at for annex in annexes),
        train_steps=0,
        sample_count=0,
        values=Scope(),
        trainer=Clocked(),
        rollouters={},
    )


def csv_lines(rows: Iterable[dict[str, Any]], columns: Sequence[str]) -> Iterator[str]:
    """A head and a line per row."""
    for row in chain([dict(zip(columns, columns, strict=True))], rows):
        line = io.StringIO()
        csv.writer(line).writerow([row.get(column, "") for column in columns])
        yield line.getvalue()


def flat_version(version: dict[str, Any]) -> dict[str, Any]:
    """A version as one row: nested names are joined by dots, lists by spaces."""
    return dict(_flatten(version))


def _position(cursor: str) -> tuple[int, int]:
    if not cursor:
        return (0, -1)
    attempt, _, version = cursor.partition(".")
    numbers = attempt.isdigit() and version.isdigit() and cursor.isascii() and len(cursor) < 40
    if not numbers or max(int(attempt), int(version)) > END:
        raise MalformedRequest(f"cursor must be the `next` of an earlier page, got {cursor!r}")
    return int(attempt), int(version)


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
