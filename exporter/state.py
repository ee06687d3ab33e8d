"""What the ledger knows, as plain structures that msgspec stores in the journal's checkpoint and reads back.

State -> Run -> Attempt -> OpenWindow -> Record        SealedWindow is what a sealed one becomes
             -> SourceLife (one per process life)
"""

from typing import Final

import msgspec

from exporter import catalog
from exporter.control import Record
from exporter.ranges import Ranges
from exporter.statistics import Distribution, ExactSum

Labels = tuple[str, ...]


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """The merged values of one version, or of one annex of it."""

    scalars: dict[str, float] = {}
    distributions: dict[str, Distribution] = {}
    user: dict[str, float] = {}


class Clocked(msgspec.Struct, frozen=True, kw_only=True):
    """The state times of one process in one version. `version_time` is the sum of the states, by definition."""

    state_ns: dict[str, int] = {}
    active_ns: int = 0
    capacity_ns: int | None = None
    busy_capacity_ns: int = 0

    @property
    def version_time_ns(self) -> int:
        return sum(self.state_ns.values())


class Annex(msgspec.Struct, frozen=True, kw_only=True):
    """A validation, checkpoint or generated cohort: it speaks of a version, and is no part of its window."""

    run: str
    attempt: int
    version: int
    kind: str
    timestamp_ns: int
    arrived_at: float = 0.0
    """The exporter's wall clock when it could first be shown, seconds."""
    sample_count: int | None = None
    size_bytes: int | None = None
    values: Scope
    reported: dict[str, dict[str, float]] = {}
    untrained: bool = False
    """Whether it was clear when it was stored that its version will have no window: see `Attempt.never_trained`."""


class SealedWindow(msgspec.Struct, frozen=True, kw_only=True):
    """One version, immutable. `reasons` is empty for a complete one."""

    run: str
    attempt: int
    version: int
    published: bool
    """False for the partial window at the end of a run."""
    reasons: tuple[str, ...]
    timestamp_ns: int
    """The time of the version: the end of its weight sync, raised to the previous version's + 1 ms."""
    sealed_at: float
    """The exporter's wall clock at the seal, seconds."""
    train_steps: int
    sample_count: int | None
    """Of the steps that gave one; None where none did."""
    values: Scope
    trainer: Clocked
    rollouters: dict[str, Clocked]
    reported: dict[str, dict[str, float]] = {}
    """What the sender computed itself: source name -> family without prefix -> value."""


class OpenWindow(msgspec.Struct, kw_only=True):
    """The records of a version that is not sealed yet."""

    steps: dict[int, Record] = {}
    sync: Record | None = None
    rollouters: list[Record] = []
    lost_records: bool = False

    @property
    def exists(self) -> bool:
        """A window exists if a train step, or a sync with steps, belongs to it."""
        return bool(self.steps) or (self.sync is not None and self.sync.steps_in_window > 0)


class Attempt(msgspec.Struct, kw_only=True):
    """One life of a run: its open windows, and how far it is published and sealed."""

    number: int
    open: dict[int, OpenWindow] = {}
    steps: Ranges = msgspec.field(default_factory=Ranges)
    """Global numbers of the train steps received, sealed ones included: a second one is refused."""
    syncs: list[int] = []
    """Versions of the newest syncs, from two below what is open; enough for graces and debts."""
    published: int | None = None
    """Newest published version."""
    sealed: int = 0
    """Newest sealed window; 0 before the first."""
    end: Record | None = None
    """The run end of the attempt: it carries the state times of the unfinished window."""
    timestamp_ns: int = 0
    """Time of the newest sealed version."""
    settled: dict[str, Ranges] = {}
    """Rollouter slot -> versions it has answered for, with a window record or by skipping."""
    annexes: dict[str, Ranges] = {}
    """Annex kind -> versions that have one."""
    held: int = 0
    """Weight of the step and rollouter records in the open windows."""
    pending: list[Record] = []
    """Annexes of versions that are not published yet."""

    def never_trained(self, version: int) -> bool:
        """Whether its sync, or the run's end, came without a step before it: it will have no window."""
        window = self.open.get(version)
        is_open = window is not None and window.exists
        said = version in self.syncs or self.end is not None
        return said and not is_open and version > self.sealed

    @property
    def is_open(self) -> bool:
        """Whether a window exists that is not sealed."""
        return any(window.exists for window in self.open.values())


class Series(msgspec.Struct, kw_only=True):
    """One life of a cumulative series of one source."""

    start_ns: int
    time_ns: int = 0
    value: float = 0.0


class SourceLife(msgspec.Struct, kw_only=True):
    """One process life. `received` is the watermark with its holes; `lost` what was given up."""

    role: str
    attempt: int
    slot: str = ""
    ended: bool = False
    last_seen: float = 0.0
    """The exporter's wall clock, seconds."""
    clock_offset: float = 0.0
    """Exporter's wall clock minus the source's, at its newest record, seconds."""
    received: Ranges = msgspec.field(default_factory=Ranges)
    lost: Ranges = msgspec.field(default_factory=Ranges)
    unsequenced: dict[bytes, None] = {}
    """Trace and span id of records without seq, newest last, bounded."""
    syncs: list[tuple[int, int]] = []
    """(seq, version) of the newest weight syncs of its attempt, ascending: what the next may not go behind. For the seq
    of one without seq stands its end, in ns."""
    first_step: int | None = None
    """Lowest seq of its train steps that are in a window of its attempt; 0 of those without seq."""
    sums: dict[str, dict[Labels, list[Series]]] = {}
    """Family -> labels -> its newest lives, by start."""
    inferred: bool = False
    """Whether `attempt` was inferred; then the attempt that its records name means nothing."""
    account_start_ns: int = 0
    """Of a queue: when the sums of its account began; 0 if it did not say."""
    account_ns: int = 0
    in_flight: float | None = None
    queued: float | None = None
    """Of a queue: what its newest account, taken at `account_ns`, had in flight and queued, as far as it said so."""

    def holes(self, below: int) -> list[tuple[int, int]]:
        """The seqs below `below` that are neither received nor given up."""
        missing = list(self.received.gaps(1, below - 1))
        if not self.lost.bounds:
            return missing
        return [hole for first, last in missing for hole in self.lost.gaps(first, last)]


class Exemplar(msgspec.Struct, frozen=True, kw_only=True):
    """The span that brought the largest value of its partial, for the bucket that this lies in."""

    value: float
    time_ns: int
    trace: bytes
    """See `Record.trace`."""


class Histogram(msgspec.Struct, kw_only=True):
    """All values of a distribution since the run began, by bucket."""

    bounds: tuple[float, ...] = ()
    """Of the buckets that it was counted into."""
    counts: list[int]
    sum: ExactSum = msgspec.field(default_factory=ExactSum)
    exemplars: dict[int, Exemplar] = {}
    """The newest of each bucket, by its index."""


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What history says of a run."""

    run: str
    status: str
    attempt: int
    param_version: int | None
    sealed_version: int
    ended_at: float | None


class Run(msgspec.Struct, kw_only=True):
    """Everything the ledger knows of one run."""

    name: str
    algorithm: str = ""
    model: str = ""
    steps_per_version: int | None = None
    staleness_limit: int | None = None
    status: str = "running"
    ended_at: float | None = None
    """The exporter's wall clock at the end of the run, seconds."""
    last_seen: float = 0.0
    attempt: int = 1
    stride: int = 1
    """Of the version window: see `version_window`."""
    inferred: bool = False
    """Whether the current attempt was inferred: then what other sources say of older ones means this one."""
    attempts: dict[int, Attempt] = {}
    sources: dict[str, SourceLife] = {}
    searched: float = 0.0
    """When no source could be forgotten to make room for another, the exporter's wall clock, seconds."""
    counters: dict[str, dict[Labels, ExactSum]] = {}
    histograms: dict[str, Histogram] = {}
    timestamps: dict[str, float] = {}
    """Family -> value, on the exporter's arrival clock."""
    queue: str = ""
    """Source id of the queue whose account is on the page."""
    user_names: dict[str, str] = {}
    """Family -> the first wire name that became it; a second name is a collision."""
    collisions: set[str] = set()
    """Names that came second, of which the log has said so."""

    def count(self, family: catalog.Family, *labels: str, by: float = 1.0) -> None:
        children = self.counters.setdefault(family.name, {})
        if labels not in children:
            children[labels] = ExactSum()
        children[labels].add(by)

    def stamp(self, family: catalog.Family, now: float) -> None:
        self.timestamps[family.name] = max(now, self.timestamps.get(family.name, now))

    @property
    def current(self) -> Attempt:
        return self.attempts[self.attempt]

    @property
    def summary(self) -> RunSummary:
        return RunSummary(
            run=self.name,
            status=self.status,
            attempt=self.attempt,
            param_version=self.current.published,
            sealed_version=self.current.sealed,
            ended_at=self.ended_at,
        )


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """A span that is of no run, and asks for nothing but to be found again."""

    trace_id: str
    arrived_at: float
    """The exporter's wall clock, seconds."""


class State(msgspec.Struct, kw_only=True):
    """All of the ledger that a restart needs."""

    runs: dict[str, Run] = {}
    finished: dict[str, Run] = {}
    """Runs that have left the page, oldest first: what still comes of them is not of a new run of that name."""
    unattributed: dict[str, int] = {}
    """Refused records that name no run, per reason."""
    probes: tuple[Probe, ...] = ()
    """The newest `PROBES_KEPT`: several may ask at a time."""
    held: int = 0
    """Weight of the step and rollouter records in the open windows of all runs."""

    def take_probe(self, probe: Probe) -> None:
        self.probes = (*self.probes, probe)[-PROBES_KEPT:]

    def find(self, name: str) -> Run | None:
        return self.runs.get(name) or self.finished.get(name)

    def bring_back(self, run: Run) -> None:
        """A run that had left the page goes on."""
        if self.finished.pop(run.name, None) is not None:
            self.runs[run.name] = run


PROBES_KEPT: Final = 16
MAX_UNSEQUENCED: Final = 20_000
MAX_SYNCS: Final = 64
