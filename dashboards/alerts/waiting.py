"""Who waits for whom, while versions do come? Which side needs more hardware, or less."""

from typing import Final

from dashboards.alert import Alert, settled
from dashboards.promql import RUN, once, selector
from dashboards.recording import LIMIT, ROLLOUTERS_IDLE, TRAINER_PAUSE, TRAINER_WAIT, WAITED
from dashboards.thresholds import limit
from exporter import catalog

_IDLE_FOR_NOTHING: Final = f"{ROLLOUTERS_IDLE} - ({TRAINER_PAUSE} or on ({RUN}) {ROLLOUTERS_IDLE} * 0)"
"""Not while the trainer validates or saves."""
_UNUSED: Final = f"1 - {once(f'avg_over_time({selector(catalog.ROLLOUTERS_UTILIZATION)}[$smooth])')}"


def _advancing(condition: str) -> str:
    """Where versions come. Half way to a stall nobody is to be told of one side, and of the stall a little later."""
    overdue = f"max_over_time({WAITED}[$recent]) > {LIMIT} / 2"
    return settled(f"({condition}) unless on ({RUN}) ({overdue})")


ALERTS: Final = (
    Alert(
        name="AsyncRLTrainerStarved",
        severity="warning",
        expr=_advancing(f"{TRAINER_WAIT} > {limit('trainer_wait_ratio')}"),
        hold="lasting",
        summary="The trainer of run {{ $labels.run }} waits for samples",
        description="The trainer of run {{ $labels.run }} waits for {{ $value | humanizePercentage }} of its time:"
        " the rollouters are too slow for it.",
    ),
    Alert(
        name="AsyncRLRolloutersIdle",
        severity="warning",
        expr=_advancing(f"{_IDLE_FOR_NOTHING} > {limit('rollouters_idle_ratio')}"),
        hold="lasting",
        summary="The rollouters of run {{ $labels.run }} are idle",
        description="The rollouters of run {{ $labels.run }} decode nothing for {{ $value | humanizePercentage }}"
        " of their time: the trainer is too slow for them.",
    ),
    Alert(
        name="AsyncRLBothSidesIdle",
        severity="warning",
        expr=_advancing(
            f"{TRAINER_WAIT} > {limit('both_idle_ratio')}"
            f" and on ({RUN}) ({ROLLOUTERS_IDLE} > {limit('both_idle_ratio')})"
        ),
        hold="lasting",
        summary="Both sides of run {{ $labels.run }} wait",
        description="The trainer of run {{ $labels.run }} waits for {{ $value | humanizePercentage }} of its time"
        " while the rollouters are idle, too.",
    ),
    Alert(
        name="AsyncRLRolloutersUnderused",
        severity="info",
        expr=_advancing(
            f"({_UNUSED}) > {limit('rollouters_unused_ratio')}"
            f" unless on ({RUN}) ({ROLLOUTERS_IDLE} > {limit('rollouters_idle_ratio')})"
        ),
        hold="sustained",
        summary="The rollouters of run {{ $labels.run }} decode far fewer responses than they could",
        description="{{ $value | humanizePercentage }} of the decoding capacity of run {{ $labels.run }} is empty"
        " while rollouters are at work: long responses hold up the others.",
    ),
)
