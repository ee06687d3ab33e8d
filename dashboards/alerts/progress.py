"""Do versions come, do rollouters get them, and are they saved?"""

from typing import Final

from dashboards.alert import STARTED, Alert, latest, running
from dashboards.promql import RUN, once, selector
from dashboards.recording import STALLED
from dashboards.thresholds import limit
from exporter import catalog
from exporter.catalog import Family

_CHECKPOINT: Final = selector(catalog.LAST_CHECKPOINT)
_STEP: Final = latest(selector(catalog.LAST_TRAIN_STEP))
_PAUSES: Final = 'state=~"validating|checkpointing"'
_PARAM_VERSION: Final = latest(selector(catalog.PARAM_VERSION))
_SERVED: Final = selector(catalog.ROLLOUTER_PARAM_VERSION)
_SYNC: Final = selector(catalog.metric_family("weight_sync", "mean"))
_VERSION: Final = selector(catalog.TRAINER_VERSION)
_SINCE: Final = "for {{ $value | humanizeDuration }}, validation and checkpoints not counted"


def _mostly(family: Family, states: str) -> str:
    """The share of the last scrapes in which a process was in one of the states."""
    return f"sum without (state) ({once(f'avg_over_time({selector(family, states)}[$bridge])')})"


def _stalled(cause: str) -> str:
    return f"{STALLED} and on ({RUN}) ({cause} > 0.5)"


def _checkpoint_old() -> str:
    """Some usual times between checkpoints, which are the mean over a day, or else a fixed one. It is the mean of
    what one exporter saw: one that came later knows of fewer."""
    last = latest(_CHECKPOINT)
    first, newest = (f"{which}_over_time({_CHECKPOINT}[$day])" for which in ("min", "max"))
    usual = once(f"({newest} - {first}) / (changes({_CHECKPOINT}[$day]) > 0)")
    least = limit("checkpoint_least_seconds")
    scaled = f"{usual} * {limit('checkpoint_factor')}"
    unknown = f"{last} * 0 + {limit('checkpoint_seconds')}"
    longest = f"({scaled} > {least} or {usual} * 0 + {least} or {unknown})"
    since = f"({last} > {STARTED} or {STARTED} and on ({RUN}) {last})"
    return f"time() - {since} > {longest}"


ALERTS: Final = (
    Alert(
        name="AsyncRLVersionStalled",
        severity="critical",
        expr=STALLED,
        hold="brief",
        summary="Run {{ $labels.run }} publishes no versions",
        description=f"The next version of run {{{{ $labels.run }}}} is waited for {_SINCE}.",
    ),
    Alert(
        name="AsyncRLStalledTrainerStarved",
        severity="critical",
        expr=_stalled(_mostly(catalog.TRAINER_STATE, 'state="waiting_samples"')),
        hold="brief",
        summary="Run {{ $labels.run }} stands still: its trainer gets no samples",
        description=f"The trainer of run {{{{ $labels.run }}}} waits for samples; no version {_SINCE}.",
    ),
    Alert(
        name="AsyncRLStalledRolloutersPaused",
        severity="critical",
        expr=_stalled(
            "min without (rollouter) ("
            + _mostly(catalog.ROLLOUTER_STATE, 'state=~"paused_staleness|paused_queue_full|waiting_prompts"')
            + ")"
        ),
        hold="brief",
        summary="Run {{ $labels.run }} stands still: all its rollouters are paused",
        description=f"Every rollouter of run {{{{ $labels.run }}}} is paused; no version {_SINCE}.",
    ),
    Alert(
        name="AsyncRLWeightSyncStuck",
        severity="critical",
        expr=_stalled(_mostly(catalog.TRAINER_STATE, 'state="weight_sync"')),
        hold="brief",
        summary="Run {{ $labels.run }} stands still: its weight sync does not end",
        description=f"The trainer of run {{{{ $labels.run }}}} is in a weight sync; no version {_SINCE}.",
    ),
    Alert(
        name="AsyncRLPauseTooLong",
        severity="warning",
        expr=running(
            f"time() - {_STEP} > {limit('pause_seconds')} and on ({RUN})"
            f" ({_mostly(catalog.TRAINER_STATE, _PAUSES)} > 0.5 or"
            f" {_mostly(catalog.ROLLOUTER_STATE, _PAUSES)} > 0.5)"
        ),
        hold="brief",
        summary="A validation or checkpoint of run {{ $labels.run }} does not end",
        description="Run {{ $labels.run }} validates or saves; it last trained {{ $value | humanizeDuration }} ago.",
    ),
    Alert(
        name="AsyncRLRollouterBehind",
        severity="warning",
        expr=running(
            f"{_PARAM_VERSION} - ignoring (rollouter) group_right () {latest(_SERVED)}"
            f" > {limit('rollouter_lag_versions')}"
            f" unless on ({RUN}, rollouter) {once(f'changes({_SERVED}[$smooth])')} > 0"
        ),
        hold="lasting",
        summary="Rollouter {{ $labels.rollouter }} of run {{ $labels.run }} does not get new weights",
        description="Rollouter {{ $labels.rollouter }} of run {{ $labels.run }} serves a version that is"
        " {{ $value }} behind, and has not changed it lately.",
    ),
    Alert(
        name="AsyncRLWeightSyncSlow",
        severity="warning",
        expr=running(
            f"{once(f'avg_over_time({_SYNC}[$recent])')} / {once(f'avg_over_time({_VERSION}[$recent])')}"
            f" > {limit('weight_sync_share_ratio')}"
        ),
        hold="lasting",
        summary="Weight syncs of run {{ $labels.run }} are slow",
        description="Weight syncs take {{ $value | humanizePercentage }} of the versions of run {{ $labels.run }}.",
    ),
    Alert(
        name="AsyncRLCheckpointOld",
        severity="warning",
        expr=running(_checkpoint_old()),
        hold="lasting",
        summary="The newest checkpoint of run {{ $labels.run }} is old",
        description="A crash of run {{ $labels.run }} now would cost {{ $value | humanizeDuration }} of training.",
    ),
)
