"""Which runs the page shows whole: all, while they fit into the series budget.

Beyond it a run is cut to its core: who it is, how it is, and when what was last heard of it, so that every alert on
a run that stands still, or is lost, works on. Those that have been silent longest are cut first, then the youngest:
a run that is whole does not come and go because others speak. One run is whole whatever the budget.
"""

import logging
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Set
from typing import Final, NamedTuple

import msgspec

from exporter import catalog
from exporter.event_log import say
from exporter.snapshot import RunSnapshot
from exporter.state import Scope, SealedWindow

log = logging.getLogger(__name__)

SILENT_SECONDS: Final = 300.0
"""Runs silent for less than this count as equally silent: it may be a long train step."""
_IDENTITY_SERIES: Final = len(catalog.RUN_STATUSES) + 6
"""Run info, status, attempt, version, stride, steps per version, staleness limit."""
_TRAINER_SERIES: Final = 4
"""Idle and wait ratio, active and version seconds."""
_MERGED_SERIES: Final = len(catalog.WINDOWED_LEDGER_GAUGES) - catalog.ROLLOUTER_SERIES - _TRAINER_SERIES
"""Over all rollouters of a version."""


class _Need(NamedTuple):
    """Most series of a run: of its core, and of all with one version in its version window."""

    run: RunSnapshot
    core: int
    whole: int


class PageBudget:
    """Most series on the page, over all runs."""

    def __init__(self, most: int, *, started: float) -> None:
        self._most = most
        self._started = started
        """The exporter's wall clock at its start: before that nobody listened."""
        self._needs: dict[str, _Need] = {}
        self._left = most
        """For versions beyond one of each whole run."""
        self._cores: dict[str, RunSnapshot] = {}
        self.dropped = Counter[str]()
        """Series that the page has not, by reason, since the start."""

    @property
    def cut(self) -> Set[str]:
        """The runs of which the page has the core only."""
        return self._cores.keys()

    def share(self, runs: Mapping[str, RunSnapshot], *, now: float) -> dict[str, RunSnapshot]:
        """The runs, oldest first, as the page shows them. `now` is the exporter's wall clock."""
        known = self._needs
        changed = {name for name, run in runs.items() if name not in known or known[name].run is not run}
        self._needs = {name: _need(run) if name in changed else known[name] for name, run in runs.items()}
        used = sum(need.whole for need in self._needs.values())
        cut = list[str]()
        if used > self._most:
            silence = {name: now - max(run.last_seen, self._started) for name, run in runs.items()}
            first_to_last = sorted(runs, key=lambda name: max(silence[name], SILENT_SECONDS))
            for name in reversed(first_to_last[1:]):
                if used <= self._most:
                    break
                cut.append(name)
                used -= self._needs[name].whole - self._needs[name].core
        self._left = self._most - used
        self._take_note([name for name in cut if name not in self._cores])
        self._cores = {
            name: self._cores[name] if name in self._cores and name not in changed else _core(runs[name])
            for name in cut
        }
        return {**runs, **self._cores}

    def versions(self, run: str, like: SealedWindow) -> int:
        """Most versions of a run in its version window, all about as wide as this one."""
        if run in self.cut:
            return 1
        series = catalog.version_series(len(like.rollouters)) + _reported_series(like.reported)
        whole = len(self._needs) - len(self._cores) + (run not in self._needs)
        return 1 + max(self._left, 0) // (series * whole)

    def _take_note(self, newly_cut: Collection[str]) -> None:
        self.dropped["runs"] += sum(self._needs[name].whole - self._needs[name].core for name in newly_cut)
        if newly_cut and not self._cores:
            say(
                log,
                "runs cut to their core",
                level=logging.WARNING,
                runs=len(newly_cut),
                series=sum(need.whole for need in self._needs.values()),
                series_budget=self._most,
            )


def _core(run: RunSnapshot) -> RunSnapshot:
    return msgspec.structs.replace(
        run,
        counters={},
        histograms={},
        live={},
        account=(None, None),
        sources=(),
        latest=None,
        window=(),
        annexes={},
    )


def _need(run: RunSnapshot) -> _Need:
    core = _IDENTITY_SERIES + len(run.timestamps)
    counters = sum(map(len, run.counters.values()))
    histograms = sum(len(histogram.counts) + 2 for histogram in run.histograms.values())
    live = len(run.live) + len(run.account) - run.account.count(None) + 2 * len(run.sources)
    return _Need(run, core, core + counters + histograms + live + sum(_version_series(run)))


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
