"""Recording rules: what several alerts, or alerts and boards, ask for. Each is `asyncrl:<what>:<how>`."""

from typing import Final

import msgspec

from dashboards.alert import RUNNING, SETTLED, STARTED, earliest, latest
from dashboards.promql import REPLICA_LABELS, RUN, increase, once, rate, selector
from dashboards.thresholds import limit
from exporter import catalog
from exporter.catalog import PREFIX, Family


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """An expression with a name; `why` says what it is for."""

    record: str
    expr: str
    why: str


ENDED: Final = "asyncrl:run:ended_attempt"
ENDED_AT: Final = "asyncrl:run:ended_timestamp_seconds"
PROGRESS: Final = "asyncrl:version:progress_timestamp_seconds"
WAITED: Final = "asyncrl:version:waited_seconds"
USUAL: Final = "asyncrl:version:usual_seconds"
LIMIT: Final = "asyncrl:version:limit_seconds"
STALLED: Final = "asyncrl:version:stalled_seconds"
TRAINER_WAIT: Final = "asyncrl:trainer:wait_ratio"
TRAINER_PAUSE: Final = "asyncrl:trainer:pause_ratio"
ROLLOUTERS_IDLE: Final = "asyncrl:rollouters:idle_ratio"

_LAST: Final = latest(selector(catalog.LAST_VERSION))
_OVER: Final = 'status=~"completed|failed|stopped"'
_PAUSES: Final = 'state=~"validating|checkpointing"'
_NOT_AT_WORK: Final = 'state!~"stopped|starting|validating|checkpointing"'
"""Time in these states is nobody's fault, and no part of a ratio."""
_TRAINER_WAITS: Final = 'state="waiting_samples"'
_ROLLOUTER_WAITS: Final = (
    'state=~"weight_sync|paused_staleness|paused_queue_full|waiting_prompts|unaccounted"'
)


def _ended() -> str:
    attempt = f"last_over_time({selector(catalog.RUN_ATTEMPT)}[$bridge])"
    over = f"last_over_time({selector(catalog.RUN_STATUS, _OVER)}[$bridge]) == 1"
    return once(f"({over}) * ignoring (status) group_left () {attempt}", "status")


def ended(window: str) -> str:
    """Where an exporter said that the attempt is over which was the last one on the page within the window."""
    attempt, began = (
        f"last_over_time({selector(family)}[{window}])"
        for family in (catalog.RUN_ATTEMPT, catalog.ATTEMPT_START)
    )
    return (
        f"{once(attempt)} <= last_over_time({ENDED}[$day])"
        f" and {earliest(began)} < last_over_time({ENDED_AT}[$day])"
    )


def _running() -> str:
    """As far as one exporter knows, unless another said that this attempt is over: one that was away at the end of
    a run goes on waiting for it."""
    known = latest(selector(catalog.RUN_STATUS, 'status="running"')) + " == 1"
    return f"({known}) unless on ({RUN}) ({ended('$bridge')})"


def _windowed(family: Family) -> str:
    """The family in the version window, each version once."""
    return latest(selector(catalog.version_family(family)))


def _usual() -> str:
    """The median length of the versions on the page; without it, their mean distance in time by attempt."""
    median = f"quantile without (attempt, param_version) (0.5, {_windowed(catalog.TRAINER_VERSION)})"
    times = latest(selector(catalog.VERSION_ONLY[catalog.VERSION_PUBLISHED]))
    spans = " ".join(
        (
            f"(max without (param_version) ({times}) - min without (param_version) ({times}))",
            f"/ (count without (param_version) ({times}) - 1 > 0)",
        )
    )
    return f"{median} or on ({RUN}) min without (attempt) ({spans})"


def _limit() -> str:
    least = limit("stalled_seconds")
    scaled = f"{USUAL} * {limit('stall_factor')}"
    later = f"(({scaled} > {least}) or ({USUAL} * 0 + {least})) and on ({RUN}) ({_LAST} > {STARTED})"
    return f"({later}) or on ({RUN}) ({PROGRESS} * 0 + {limit('first_version_seconds')})"


def _waited() -> str:
    paused = f"sum without (state) ({increase(selector(catalog.TRAINER_STATE_SECONDS, _PAUSES), '$memory')})"
    return f"time() - {PROGRESS} - ({paused} or on ({RUN}) {PROGRESS} * 0)"


def _stalled() -> str:
    pausing = [
        f"unless on ({RUN}) ({latest(selector(family, _PAUSES))} == 1)"
        for family in (catalog.TRAINER_STATE, catalog.ROLLOUTER_STATE)
    ]
    return f"{WAITED} > {LIMIT} and on ({RUN}) {RUNNING} {' '.join(pausing)}"


def _share_of_time(family: Family, states: str) -> str:
    """The part of their counted time that processes spend in some states, all of them together."""
    labels = ", ".join(family.labels[1:])
    part, whole = (
        f"sum without ({labels}) ({rate(selector(family, matcher), '$recent')})"
        for matcher in (states, _NOT_AT_WORK)
    )
    return f"{part} / ({whole} > 0)"


def _averaged(family: Family, *reported: Family) -> str:
    """The gauge of the newest version over a while; for runs without it, what their trainers computed themselves."""
    ours = once(f"avg_over_time({selector(family)}[$smooth])")
    theirs = [
        f"avg without ({', '.join((*REPLICA_LABELS, 'source', *other.labels[1:]))})"
        f" (avg_over_time({PREFIX}reported_{other.name.removeprefix(PREFIX)}[$smooth]))"
        for other in reported
    ]
    return f" or on ({RUN}) ".join([ours, *theirs])


RECORDINGS: Final = (
    Recording(
        record=ENDED,
        expr=_ended(),
        why="which attempt of a run is over: an exporter that says so is right",
    ),
    Recording(
        record=ENDED_AT,
        expr=f"{ENDED} * 0 + time()",
        why="when that was last said: a run that began later is another one of the same name",
    ),
    Recording(
        record=RUNNING,
        expr=_running(),
        why="the gate of every alert on what a run does",
    ),
    Recording(
        record=PROGRESS,
        expr=f"({_LAST} > {STARTED}) or {STARTED}",
        why="when the newest version of this attempt came, or else when the attempt began",
    ),
    Recording(record=USUAL, expr=_usual(), why="the usual time between two versions, whatever goes on now"),
    Recording(
        record=LIMIT,
        expr=_limit(),
        why="how long to wait for a version: some usual times, or a fixed one before the first",
    ),
    Recording(
        record=WAITED,
        expr=_waited(),
        why="how long the next version is waited for, validation and checkpoints not counted",
    ),
    Recording(
        record=STALLED,
        expr=_stalled(),
        why="runs without progress, and not because they validate or save",
    ),
    Recording(
        record=SETTLED,
        expr=f"{RUNNING} and on ({RUN}) (time() - {STARTED} > {limit('warm_up_seconds')})"
        f" unless on ({RUN}) (time() - {STARTED} < {USUAL} * {limit('stall_factor')})",
        why="runs past their warm-up, of which ratios say something",
    ),
    Recording(
        record=TRAINER_WAIT,
        expr=f"{_share_of_time(catalog.TRAINER_STATE_SECONDS, _TRAINER_WAITS)}"
        f" or on ({RUN}) {_averaged(catalog.TRAINER_WAIT, catalog.TRAINER_IDLE)}",
        why="the trainer's waiting share; of foreign trainers what they call idle",
    ),
    Recording(
        record=TRAINER_PAUSE,
        expr=f"sum without (state) ({rate(selector(catalog.TRAINER_STATE_SECONDS, _PAUSES), '$recent')})",
        why="the share of time that the trainer validates or saves",
    ),
    Recording(
        record=ROLLOUTERS_IDLE,
        expr=f"{_share_of_time(catalog.ROLLOUTER_STATE_SECONDS, _ROLLOUTER_WAITS)}"
        f" or on ({RUN}) {_averaged(catalog.ROLLOUTERS_IDLE, catalog.ROLLOUTERS_IDLE, catalog.ROLLOUTER_IDLE)}",
        why="the rollouters' idle share without validation; a ratio of sums",
    ),
)
