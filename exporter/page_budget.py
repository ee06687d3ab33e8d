"""Which runs the page shows whole: all, while they fit into the series budget.

Beyond it a run is cut to its core: who it is, how it is, and when what was last heard of it, so that every alert on
a run that stands still, or is lost, works on. Those that have been silent longest are cut first, then the youngest:
a run that is whole does not come and go because others speak. One run is whole whatever the budget.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from exporter import catalog
from exporter.event_log import say
from exporter.snapshot import RunSnapshot
from exporter.state import Scope, SealedWindow

log = logging.getLogger(__name__)

SILENT_SECONDS: Final = 300.0
"""So long a run that says nothing is no more silent than others: a long step, or a scraper that has yet to come."""
_IDENTITY_SERIES: Final = len(catalog.RUN_STATUSES) + 6
"""Run info, status, attempt, version, stride, steps per version, staleness limit."""
_TRAINER_SERIES: Final = 4
"""Idle and wait ratio, active and version seconds."""
_MERGED_SERIES: Final = len(catalog.WINDOWED_LEDGER_GAUGES) - catalog.ROLLOUTER_SERIES - _TRAINER_SERIES
"""Over all rollouters of a version."""


class _Need(NamedTuple):
    """Most series of a run."""

    core: int
    whole: int
    """With one version in its version window."""


class PageBudget:
    """Most series on the page, over all runs."""

    def __init__(self, most: int, *, started: float) -> None:
        self._most = most
        self._started = started
        """The exporter's wall clock at its start: before that nobody listened."""
        self._needs: dict[str, tuple[RunSnapshot, _Need]] = {}
        self._left = most
        """For versions beyond one of each whole run."""
        self._whole = 0
        self.cut: frozenset[str] = frozenset()
        """The runs of which the page has the core only."""
        self.dropped = Counter[str]()
        """Series that the page has not, by reason, since the start."""

    def share(self, runs: Mapping[str, RunSnapshot], *, now: float) -> dict[str, RunSnapshot]:
        """The runs, oldest first, as the page shows them. `now` is the exporter's wall clock."""
        known = self._needs
        self._needs = {
            name: known[name] if name in known and known[name][0] is run else (run, _need(run))
            for name, run in runs.items()
        }
        needs = {name: need for name, (_, need) in self._needs.items()}
        used = sum(need.whole for need in needs.values())
        cut = set[str]()
        if used > self._most:
            silence = {name: now - max(run.last_seen, self._started) for name, run in runs.items()}
            first_to_last = sorted(runs, key=lambda name: max(silence[name], SILENT_SECONDS))
            for name in reversed(first_to_last[1:]):
                if used <= self._most:
                    break
                cut.add(name)
                used -= needs[name].whole - needs[name].core
        self._take_note(frozenset(cut), needs)
        self._left, self._whole = self._most - used, len(runs) - len(cut)
        return {name: _core(run) if name in cut else run for name, run in runs.items()}

    def versions(self, run: str, like: SealedWindow) -> int:
        """Most versions of a run in its version window, all about as wide as this one."""
        series = catalog.version_series(len(like.rollouters)) + _reported_series(like.reported)
        runs = self._whole if run in self._needs else self._whole + 1
        return 1 if run in self.cut else 1 + max(self._left, 0) // (series * runs)

    def _take_note(self, cut: frozenset[str], needs: Mapping[str, _Need]) -> None:
        self.dropped["runs"] += sum(needs[name].whole - needs[name].core for name in cut - self.cut)
        if cut and not self.cut:
            say(
                log,
                "runs cut to their core",
                level=logging.WARNING,
                runs=len(cut),
                series=sum(need.whole for need in needs.values()),
                series_budget=self._most,
            )
        self.cut = cut


def _core(run: RunSnapshot) -> RunSnapshot:
    return msgspec.structs.replace(
        run,
        counters={},
        histograms={},
        live={},
        account=None,
        sources=(),
        latest=None,
        window=(),
        annexes={},
    )


def _need(run: RunSnapshot) -> _Need:
    core = _IDENTITY_SERIES + len(run.timestamps)
    counters = sum(map(len, run.counters.values()))
    histograms = sum(len(histogram.counts) + 2 for histogram in run.histograms.values())
    live = len(run.live) + 2 * (run.account is not None) + 2 * len(run.sources)
    return _Need(core, core + counters + histograms + live + sum(_version_series(run)))


def _version_series(run: RunSnapshot) -> Iterator[int]:
    """Of the newest version among the latest gauges and in the version window, and of annexes of versions that have
    left it."""
    if run.latest is not None:
        slots = len(run.latest.rollouters)
        yield 2 * _TRAINER_SERIES * bool(run.latest.trainer.state_ns)
        yield 2 * _MERGED_SERIES * bool(slots)
        yield 2 * catalog.ROLLOUTER_SERIES * slots * (slots <= catalog.MAX_ROLLOUTERS)
        yield 2 * _value_series(run.latest.values, run.latest.reported) - len(run.latest.values.user)
        yield len(catalog.VERSION_ONLY)
    oldest = (run.window[0].attempt, run.window[0].version) if run.window else (run.attempt, 0)
    newest = (run.window[-1].attempt, run.window[-1].version) if run.window else oldest
    for key, annexes in run.annexes.items():
        if key < oldest or key >= newest:
            for annex in annexes.values():
                yield 2 + _value_series(annex.values, annex.reported) + _reported_series(annex.reported)


def _value_series(values: Scope, reported: Mapping[str, Mapping[str, float]]) -> int:
    distributions = len(catalog.DISTRIBUTION_STATISTICS) * len(values.distributions)
    return len(values.scalars) + distributions + len(values.user) + _reported_series(reported)


def _reported_series(reported: Mapping[str, Mapping[str, float]]) -> int:
    return sum(map(len, reported.values()))
