"""What one scrape shows: an immutable picture of the ledger, taken after a commit. All its values belong together."""

from collections.abc import Mapping

import msgspec

from exporter.ledger import Ledger
from exporter.live import Key, LiveGauge
from exporter.state import Annex, Exemplar, Labels, Probe, Run, SealedWindow, SourceLife
from exporter.version_window import VersionWindow


class SourceSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    role: str
    rollouter: str
    last_seen: float
    clock_offset: float


class HistogramSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    counts: tuple[int, ...]
    """Per bucket, not cumulative."""
    sum: float
    exemplars: Mapping[int, Exemplar]


class RunSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What the page shows of one run, frozen between two commits."""

    name: str
    algorithm: str
    model: str
    status: str
    attempt: int
    ended_at: float | None
    last_seen: float
    """The exporter's wall clock, seconds."""
    published: int | None
    sealed: int
    open_windows: int
    steps_per_version: int | None
    staleness_limit: int | None
    timestamps: Mapping[str, float]
    counters: Mapping[str, Mapping[Labels, float]]
    histograms: Mapping[str, HistogramSnapshot]
    live: Mapping[Key, LiveGauge]
    account: tuple[float | None, float | None]
    """Samples in flight and queued, if a queue has said so."""
    sources: tuple[SourceSnapshot, ...]
    latest: SealedWindow | None
    """The newest sealed window of a published version."""
    window: tuple[SealedWindow, ...]
    stride: int
    annexes: Mapping[tuple[int, int], Mapping[str, Annex]]


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    runs: Mapping[str, RunSnapshot] = {}
    unattributed: Mapping[str, int] = {}
    probes: tuple[Probe, ...] = ()


def take_run(ledger: Ledger, run: Run, window: VersionWindow) -> RunSnapshot:
    """The run as the ledger and the version window have it now."""
    attempt = run.current
    queue = run.sources.get(run.queue)
    return RunSnapshot(
        name=run.name,
        algorithm=run.algorithm,
        model=run.model,
        status=run.status,
        attempt=run.attempt,
        ended_at=run.ended_at,
        last_seen=run.last_seen,
        published=attempt.published,
        sealed=attempt.sealed,
        open_windows=sum(open_.exists for each in run.attempts.values() for open_ in each.open.values()),
        steps_per_version=run.steps_per_version,
        staleness_limit=run.staleness_limit,
        timestamps=dict(run.timestamps),
        counters={
            family: {labels: total.value for labels, total in children.items()}
            for family, children in run.counters.items()
        },
        histograms={
            name: HistogramSnapshot(
                counts=tuple(value.counts), sum=value.sum.value, exemplars=dict(value.exemplars)
            )
            for name, value in run.histograms.items()
        },
        live=dict(ledger.live.runs.get(run.name, {})),
        account=(None, None) if queue is None else (queue.in_flight, queue.queued),
        sources=tuple(
            SourceSnapshot(
                role=life.role, rollouter=life.slot, last_seen=life.last_seen, clock_offset=life.clock_offset
            )
            for life in _speaking(run).values()
        ),
        latest=next((sealed for sealed in reversed(window.versions) if sealed.published), None),
        window=tuple(window.versions),
        stride=window.stride,
        annexes={key: dict(annexes) for key, annexes in window.annexes.items()},
    )


def _speaking(run: Run) -> dict[tuple[str, str], SourceLife]:
    """Of each role and slot the life heard last, unless it said that it ended."""
    newest: dict[tuple[str, str], SourceLife] = {}
    for life in run.sources.values():
        key = (life.role, life.slot)
        if not life.ended and (key not in newest or life.last_seen >= newest[key].last_seen):
            newest[key] = life
    return newest
