"""The open windows of a run: opened, filled, emptied. What they hold is bounded, over all runs."""

from collections.abc import Iterable
from typing import Final

from exporter import catalog
from exporter.control import Record
from exporter.errors import Rejected
from exporter.state import Attempt, OpenWindow, Run, State

MAX_OPEN_WINDOWS: Final = 4096
MAX_HELD: Final = 2_000_000
"""Of all open windows together, in values, a record counting 8 more: some 300 MB."""


def open_window(attempt: Attempt, version: int) -> OpenWindow:
    """The open window of a version, opened if it is new. Raises Rejected."""
    if version not in attempt.open and len(attempt.open) >= MAX_OPEN_WINDOWS:
        raise Rejected("limit", f"{MAX_OPEN_WINDOWS} versions are open already")
    return attempt.open.setdefault(version, OpenWindow())


def hold(state: State, run: Run, attempt: Attempt, record: Record) -> None:
    """Count what an open window is to hold. Where all windows hold too much, the runs that hold more than
    their share are refused more of it. Raises Rejected."""
    if state.held >= MAX_HELD and attempt.held * len(state.runs) >= MAX_HELD:
        raise Rejected("limit", f"the open windows of run {run.name!r} hold too much")
    attempt.held += record.weight
    state.held += record.weight


def take_out(state: State, attempt: Attempt, version: int) -> OpenWindow:
    """The window of a version, which is open no more."""
    window = attempt.open.pop(version)
    weight = sum(record.weight for record in (*window.steps.values(), *window.rollouters))
    attempt.held -= weight
    state.held -= weight
    return window


def drop_unmade(state: State, run: Run, attempt: Attempt, versions: Iterable[int], reason: str) -> None:
    """Window records whose version got neither step nor sync, and will not: they are late."""
    for version in versions:
        window = take_out(state, attempt, version)
        run.count(catalog.LATE_RECORDS, reason, by=len(window.rollouters))
