"""Who speaks: the run and the process life behind a record, made known at its first one. Both are bounded."""

from functools import lru_cache
from pathlib import PureWindowsPath
from typing import Final

from exporter import catalog
from exporter.attributes import label
from exporter.control import check_source, run_name
from exporter.errors import Rejected
from exporter.records import AttributeValue, Source
from exporter.state import Attempt, Run, SourceLife, State
from exporter.tally import refuse
from runtime.telemetry import schema

MAX_RUNS: Final = 1000
MAX_SOURCES: Final = 4096
SEARCH_SECONDS: Final = 1.0
"""How often a full run is searched for a source to forget: a flood of new ones is refused without a search for each."""
SILENCE_SECONDS: Final = 86_400.0
"""A source that ended without a word makes room for another after a day."""


def find_sender(
    state: State, source: Source, attributes: dict[str, AttributeValue], wall: float
) -> tuple[Run, SourceLife]:
    """The run and the life that a record speaks for. Raises Rejected."""
    check_source(source)
    name = run_name(str(attributes.get(schema.RUN_ID) or source.run))
    run = state.find(name) or _begin_run(state, name, wall)
    if run.status == "lost":  # it is back
        run.status, run.ended_at = "running", None
        state.bring_back(run)
    run.last_seen = wall
    _describe(run, source)
    return run, run.sources.get(source.source_id) or _begin_life(run, source, wall)


def known_run(state: State, source: Source) -> Run | None:
    """The run that a source names, if it has been heard of."""
    return state.find(label(source.run))


def _begin_run(state: State, name: str, wall: float) -> Run:
    if len(state.runs) >= MAX_RUNS:
        raise Rejected("limit", f"{MAX_RUNS} runs are known already")
    run = Run(name=name, attempts={1: Attempt(number=1)})
    for family, labels in catalog.ZERO_INITIALISED:
        run.count(family, *labels, by=0.0)
    run.stamp(catalog.ATTEMPT_START, wall)
    state.runs[name] = run
    return run


def _begin_life(run: Run, source: Source, wall: float) -> SourceLife:
    if len(run.sources) >= MAX_SOURCES:
        gone = _find_gone(run, wall) if abs(wall - run.searched) >= SEARCH_SECONDS else None
        if gone is None:
            run.searched = wall
            raise Rejected("limit", f"{MAX_SOURCES} sources of run {run.name!r} are known already")
        del run.sources[gone]
    life = SourceLife(role=source.role, attempt=source.attempt or (run.attempt if run.inferred else 1))
    run.sources[source.source_id] = life
    for family, said in (
        (catalog.STEPS_PER_VERSION, source.steps_per_version),
        (catalog.STALENESS_LIMIT, source.staleness_limit),
    ):
        if said is not None and _right(family, said) is None:
            refuse(run, "bad_value", wall)  # once: the resource comes with every record of the life
    return life


def _find_gone(run: Run, wall: float) -> str | None:
    """A life that nothing needs any more. Open windows and the end of an attempt ask for those that they name, whatever
    their role, the account for its queue."""
    needed = {run.queue}
    for attempt in run.attempts.values():
        for window in attempt.open.values():
            needed.update(step.source_id for step in window.steps.values())
            needed.update([window.sync.source_id] if window.sync is not None else [])
        needed.update([attempt.end.source_id] if attempt.end is not None else [])
    for source_id, life in run.sources.items():
        is_over = life.ended or wall - life.last_seen > SILENCE_SECONDS
        if is_over and life.role != schema.TRAINER and source_id not in needed:
            return source_id
    return None


def _describe(run: Run, source: Source) -> None:
    """What the resource says of the run. Of a path only the last segment is published."""
    run.algorithm = label(source.algorithm) or run.algorithm
    run.model = label(_last_segment(source.model)) or run.model
    steps = _right(catalog.STEPS_PER_VERSION, source.steps_per_version)
    run.steps_per_version = run.steps_per_version if steps is None else steps
    limit = _right(catalog.STALENESS_LIMIT, source.staleness_limit)
    run.staleness_limit = run.staleness_limit if limit is None else limit


def _right(family: catalog.Family, said: int | None) -> int | None:
    """What the resource says, if it lies in the family's range."""
    return None if said is None or (family.low is not None and said < family.low) else said


@lru_cache(maxsize=1024)  # the same models come with every record
def _last_segment(model: str) -> str:
    """Of a path: who it belongs to is nobody's business."""
    windows = PureWindowsPath(model)
    return windows.name if windows.is_absolute() else model.rstrip("/").rsplit("/", 1)[-1]
