"""The states that boards name and colour: one table, so that a state looks the same wherever it is shown.

Green works, blue is the machinery of versions, yellow and orange wait, red is wrong, grey is not there.
"""

from typing import Final

import msgspec

from exporter import catalog


class States(msgspec.Struct, frozen=True, kw_only=True):
    """The values of a one-hot label. The first has code 1, as `promql.code` counts them."""

    label: str
    colours: dict[str, str]
    none: str = "unknown"
    none_colour: str = "text"
    """Of code 0: none of the values."""

    @property
    def values(self) -> tuple[str, ...]:
        return tuple(self.colours)


def _states(label: str, values: tuple[str, ...], colours: dict[str, str]) -> States:
    return States(label=label, colours={value: colours[value] for value in values})


_PROCESS_COLOURS: Final = {
    "stopped": "#5c6370",
    "starting": "#9aa0a6",
    "weight_sync": "#5794f2",
    "validating": "#8ab8ff",
    "checkpointing": "#b877d9",
    "generating": "#56a64b",
    "draining": "#96d98d",
    "paused_staleness": "#ff9830",
    "paused_queue_full": "#fade2a",
    "waiting_prompts": "#e0b400",
    "waiting_samples": "#ff9830",
    "assembling": "#96d98d",
    "training": "#56a64b",
    "unaccounted": "#f2495c",
}

RUN_STATUS: Final = _states(
    "status",
    catalog.RUN_STATUSES,
    {"running": "green", "completed": "blue", "stopped": "text", "failed": "red", "lost": "red"},
)
ROLLOUTER_STATE: Final = _states("state", catalog.ROLLOUTER_STATES, _PROCESS_COLOURS)
TRAINER_STATE: Final = _states("state", catalog.TRAINER_STATES, _PROCESS_COLOURS)
OUTCOME: Final = _states(
    "outcome",
    catalog.OUTCOMES,
    {
        "trained": "#56a64b",
        "filtered_zero_variance": "#8ab8ff",
        "dropped_stale": "#ff9830",
        "dropped_queue_full": "#fade2a",
        "dropped_rollback": "#b877d9",
        "failed": "#f2495c",
        "unused_at_end": "#9aa0a6",
    },
)
SYNC_PHASE: Final = _states(
    "phase", catalog.SYNC_PHASES, {"wait": "#ff9830", "transfer": "#5794f2", "load": "#8ab8ff"}
)
COMPLETE: Final = States(
    label="complete", colours={"complete": "green"}, none="incomplete", none_colour="orange"
)

STATES: Final = {
    "run_status": RUN_STATUS,
    "rollouter_state": ROLLOUTER_STATE,
    "trainer_state": TRAINER_STATE,
    "outcome": OUTCOME,
    "sync_phase": SYNC_PHASE,
    "complete": COMPLETE,
}
"""By the name that panels use."""
