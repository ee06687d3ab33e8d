"""Do the runs still speak, and does all they say arrive?"""

from typing import Final

from dashboards.alert import Alert, all_of, any_of, happened, latest, missed, running, so_far
from dashboards.promql import HOME_LABELS, RUN, increase, once, selector
from dashboards.recording import ended
from dashboards.thresholds import limit
from exporter import catalog

_RUNNING: Final = selector(catalog.RUN_STATUS, 'status="running"')
_LAST_KNOWN: Final = f"last_over_time(({any_of(f'last_over_time({_RUNNING}[$bridge])', 'run')})[$memory:])"
"""Whether a run was running when it was last seen. Minute by minute: an exporter that moved away before the end of a
run goes on saying that it is running, if its last word is compared with that of another."""
_LATE: Final = selector(catalog.LATE_RECORDS, 'reason="sealed"')
_ANY_STATE: Final = 'state="validating"'
"""Who says its state has a series for each, at 1 or 0: one is enough, at a tenth of the price of all."""
_OFFSET: Final = selector(catalog.SOURCE_CLOCK_OFFSET)


def _silent(role: str, spoke: str, within: str) -> str:
    """Sources of a role that spoke by themselves within a while, and no longer do. How long they are silent is
    measured at the last scrape: when the exporter is gone, nobody becomes silent for that."""
    seen = selector(catalog.SOURCE_LAST_SEEN, f'role="{role}"')
    silence = all_of(f"last_over_time((timestamp({seen}) - {seen})[$bridge:])", "run", "role", "rollouter")
    labels = f"{RUN}, rollouter" if role == "rollouter" else RUN
    return f"{silence} > {limit('heartbeat_seconds')} and on ({labels}) last_over_time({spoke}[{within}])"


_TRAINERS_SILENT: Final = _silent("trainer", selector(catalog.TRAINER_STATE, _ANY_STATE), "$day")
_ROLLOUTERS_SILENT: Final = _silent("rollouter", selector(catalog.ROLLOUTER_STATE, _ANY_STATE), "$memory")


ALERTS: Final = (
    Alert(
        name="AsyncRLRunFailed",
        severity="critical",
        expr=latest(selector(catalog.RUN_STATUS, 'status="failed"')) + " == 1",
        keep="aftermath",
        summary="Run {{ $labels.run }} failed",
        description="Its trainer or controller ended run {{ $labels.run }} with the status failed.",
    ),
    Alert(
        name="AsyncRLRunVanished",
        severity="critical",
        expr=f"({_LAST_KNOWN} == 1) unless on ({RUN}) {latest(selector(catalog.RUN_STATUS))}"
        f" and on ({', '.join(HOME_LABELS)}) {latest(selector(catalog.BUILD_INFO))}"
        f" unless on ({RUN}) ({ended('$memory')})",
        hold="lasting",
        summary="Run {{ $labels.run }} is gone from the exporter",
        description="Run {{ $labels.run }} was running, and the exporter, which is up, knows nothing of it.",
    ),
    Alert(
        name="AsyncRLTrainerSilent",
        severity="critical",
        expr=running(_TRAINERS_SILENT),
        hold="brief",
        summary="The trainer of run {{ $labels.run }} is silent",
        description="Nothing has come from the trainer of run {{ $labels.run }} for"
        " {{ $value | humanizeDuration }}, and it did not say that it ends.",
    ),
    Alert(
        name="AsyncRLRollouterSilent",
        severity="warning",
        # Not beside a silent trainer, of which another alert tells: it would be news when that one is over.
        expr=running(f"({_ROLLOUTERS_SILENT}) unless on ({RUN}) ({_TRAINERS_SILENT})"),
        hold="brief",
        keep="flapping",  # as long as there is something to tell of records that it did not send, or too late
        summary="Rollouter {{ $labels.rollouter }} of run {{ $labels.run }} is silent",
        description="Nothing has come from rollouter {{ $labels.rollouter }} of run {{ $labels.run }} for"
        " {{ $value | humanizeDuration }}, and it did not say that it ends.",
    ),
    Alert(
        name="AsyncRLClockSkewed",
        severity="warning",
        expr=running(
            f"{once(f'min_over_time({_OFFSET}[$bridge])')} > {limit('clock_offset_seconds')}"
            f" or {once(f'max_over_time({_OFFSET}[$bridge])')} < -{limit('clock_offset_seconds')}"
        ),
        hold="lasting",
        summary="A clock of run {{ $labels.run }} is wrong",
        description="The clock of {{ $labels.role }} {{ $labels.rollouter }} of run {{ $labels.run }} differs"
        " from the exporter's by {{ $value | humanizeDuration }}, or its telemetry is that late.",
    ),
    Alert(
        name="AsyncRLTelemetryDropped",
        severity="warning",
        expr=increase(selector(catalog.TELEMETRY_DROPPED, 'kind="control"'), "$recent") + " > 0",
        keep="aftermath",  # longer than what follows from it, which would be told when it is over
        summary="Run {{ $labels.run }} drops telemetry",
        description="Processes of run {{ $labels.run }} dropped {{ $value | humanize }} control records lately:"
        " their versions will be incomplete.",
    ),
    Alert(
        name="AsyncRLRecordsLost",
        severity="warning",
        expr=missed(catalog.LAST_LOST),
        summary="Records of run {{ $labels.run }} are lost",
        description="{{ $value | humanizeDuration }} ago records of run {{ $labels.run }} were given up."
        + so_far(catalog.LOST_RECORDS),
    ),
    Alert(
        name="AsyncRLRecordsLate",
        severity="warning",
        expr=f"{all_of(f'increase({_LATE}[$recent])', 'run', 'reason')} > {limit('late_records')}",
        summary="Records of run {{ $labels.run }} come too late",
        description="{{ $value | humanize }} records of run {{ $labels.run }} came after their version was sealed.",
    ),
    Alert(
        name="AsyncRLRecordsRejected",
        severity="warning",
        expr=happened(catalog.LAST_REJECTED),
        summary="The exporter refuses what run {{ $labels.run }} sends",
        description="{{ $value | humanizeDuration }} ago a record of run {{ $labels.run }} was refused."
        + so_far(catalog.REJECTED_RECORDS),
    ),
)
