"""What keeps other alerts quiet in Alertmanager, so that one cause pages once: `inhibit_rules`.

A rule holds within one run, or one job of exporters, and within one cluster and namespace where Prometheus says
which. Where a label is missing on both sides it counts as equal, so every alert named here has the others.
"""

from typing import Final

import msgspec

from dashboards import dcgm
from dashboards.alerts import ALERTS, GROUPS
from dashboards.errors import DashboardError
from dashboards.promql import HOME_LABELS
from dashboards.rules import HEAD, written


class Inhibition(msgspec.Struct, frozen=True, kw_only=True):
    """While one of `causes` fires, its `consequences` are quiet, where the `equal` labels are."""

    causes: tuple[str, ...]
    consequences: tuple[str, ...]
    equal: tuple[str, ...] = (*HOME_LABELS, "run")


def _names(*groups: str) -> tuple[str, ...]:
    return tuple(alert.name for group in groups for alert in GROUPS[group])


_STALLS: Final = ("AsyncRLStalledRolloutersPaused", "AsyncRLStalledTrainerStarved", "AsyncRLWeightSyncStuck")
_SAID_BEFORE: Final = ("AsyncRLRunFailed", "AsyncRLRunVanished")
"""True whatever the exporter takes now."""
_SLOW: Final = ("AsyncRLRollouterBehind", "AsyncRLWeightSyncSlow", "AsyncRLCheckpointOld", *_names("waiting"))
_COLLAPSE: Final = "AsyncRLRewardCollapsed"

INHIBITIONS: Final = (
    # An exporter that nobody reaches, or that takes nothing: what it says of runs is old.
    Inhibition(
        causes=("AsyncRLExporterDown",),
        consequences=("AsyncRLExporterReplicaDown", "AsyncRLScrapesFailing"),
        equal=HOME_LABELS,
    ),
    Inhibition(
        causes=("AsyncRLExporterReplicaDown",),
        consequences=("AsyncRLScrapesFailing",),
        equal=(*HOME_LABELS, "instance"),
    ),
    Inhibition(
        causes=("AsyncRLJournalUnavailable",),
        consequences=tuple(
            name for name in _names("telemetry", "progress", "waiting") if name not in _SAID_BEFORE
        ),
        equal=HOME_LABELS,
    ),
    Inhibition(
        causes=("AsyncRLJournalUnavailable",),
        consequences=("AsyncRLReplicaJournalUnavailable",),
        equal=HOME_LABELS,
    ),
    # A run that is dead: everything of it stands still.
    Inhibition(
        causes=("AsyncRLRunFailed", "AsyncRLTrainerSilent"),
        consequences=(
            "AsyncRLRollouterSilent",
            "AsyncRLClockSkewed",
            "AsyncRLVersionsIncomplete",
            *_names("progress", "waiting", "samples", "learning"),
        ),
    ),
    # What waited for a version that never came is refused at the end.
    Inhibition(causes=("AsyncRLRunFailed",), consequences=("AsyncRLTrainerSilent", "AsyncRLRecordsRejected")),
    # A stall: its cause, where that is known, and not what follows from it.
    Inhibition(causes=_STALLS, consequences=("AsyncRLVersionStalled",)),
    Inhibition(causes=("AsyncRLWeightSyncStuck",), consequences=("AsyncRLStalledRolloutersPaused",)),
    Inhibition(causes=("AsyncRLStalledRolloutersPaused",), consequences=("AsyncRLStalledTrainerStarved",)),
    Inhibition(causes=("AsyncRLVersionStalled", *_STALLS, "AsyncRLPauseTooLong"), consequences=_SLOW),
    # Who waits, and for what.
    Inhibition(
        causes=("AsyncRLBothSidesIdle",), consequences=("AsyncRLTrainerStarved", "AsyncRLRolloutersIdle")
    ),
    Inhibition(
        causes=("AsyncRLWeightSyncSlow",), consequences=("AsyncRLRollouterBehind", "AsyncRLRolloutersIdle")
    ),
    Inhibition(
        causes=("AsyncRLRollouterSilent",),
        consequences=(
            "AsyncRLRecordsLate",
            "AsyncRLVersionsIncomplete",
            "AsyncRLTrainerStarved",
            "AsyncRLBothSidesIdle",
        ),
    ),
    Inhibition(
        causes=("AsyncRLRollouterSilent",),
        consequences=("AsyncRLRollouterBehind",),
        equal=(*HOME_LABELS, "run", "rollouter"),
    ),
    Inhibition(
        causes=("AsyncRLReportedRatioOutOfRange", "AsyncRLReportedActiveExceedsVersion"),
        consequences=_names("waiting"),
    ),
    # Records that do not arrive.
    Inhibition(
        causes=("AsyncRLTelemetryDropped",),
        consequences=("AsyncRLRecordsLost", "AsyncRLVersionsIncomplete"),
    ),
    Inhibition(causes=("AsyncRLRecordsLost",), consequences=("AsyncRLVersionsIncomplete",)),
    Inhibition(causes=("AsyncRLVersionBackward",), consequences=("AsyncRLRecordsRejected",)),
    # Learning that fell apart.
    Inhibition(causes=("AsyncRLNonFinite",), consequences=_names("learning")),
    Inhibition(
        causes=(_COLLAPSE,), consequences=tuple(name for name in _names("learning") if name != _COLLAPSE)
    ),
    Inhibition(
        causes=("AsyncRLGPUFailed",),
        consequences=("AsyncRLGPUMissing", "AsyncRLGPUThrottled", "AsyncRLGPUMemoryFull"),
        equal=(*dcgm.HOST_LABELS, "gpu"),
    ),
)


def inhibition_yaml() -> str:
    """The text of a file to put under Alertmanager's own settings."""
    named = {name for one in INHIBITIONS for name in (*one.causes, *one.consequences)}
    if unknown := sorted(named - set(ALERTS)):
        raise DashboardError(f"inhibition.py names alerts that there are not: {', '.join(unknown)}")
    return HEAD + written({"inhibit_rules": [_rule(one) for one in INHIBITIONS]})


def _rule(one: Inhibition) -> dict[str, list[str]]:
    return {
        "source_matchers": [_among(one.causes)],
        "target_matchers": [_among(one.consequences)],
        "equal": list(one.equal),
    }


def _among(names: tuple[str, ...]) -> str:
    return 'alertname=~"' + "|".join(names) + '"'
