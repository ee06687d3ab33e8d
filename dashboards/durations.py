"""Every duration of the rules, by name. Expressions name one as `$name`; the divisor shortens all of them alike.

The shipped rules are rendered with the divisor 1, those of a run that lasts two minutes with 60.
"""

from string import Template
from typing import Final

import msgspec

from dashboards.errors import DashboardError
from exporter.catalog import CERTIFICATE_SOON_SECONDS

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE


class Duration(msgspec.Struct, frozen=True, kw_only=True):
    """A time to wait or to look back."""

    seconds: int
    why: str


DURATIONS: Final[dict[str, Duration]] = {
    "evaluation": Duration(seconds=_MINUTE, why="how often rules are evaluated"),
    # Windows to look back.
    "bridge": Duration(seconds=5 * _MINUTE, why="a live value is looked at over some scrapes: one may fail"),
    "smooth": Duration(
        seconds=10 * _MINUTE, why="a ratio is averaged, so that hopping around a limit is no news"
    ),
    "recent": Duration(seconds=15 * _MINUTE, why="what counts as now, for rates and for learning"),
    "memory": Duration(seconds=_HOUR, why="what was seen within it is expected to be there still"),
    "day": Duration(
        seconds=24 * _HOUR, why="long enough for several checkpoints, and for an outage at night"
    ),
    "baseline": Duration(seconds=3 * _HOUR, why="what is usual for a run"),
    "baseline_offset": Duration(
        seconds=30 * _MINUTE, why="longer than recent and for together, or a jump would be its own baseline"
    ),
    # How long something holds before it fires.
    "brief": Duration(seconds=2 * _MINUTE, why="a restart of an exporter or a Prometheus is shorter"),
    "lasting": Duration(seconds=5 * _MINUTE, why="of what is averaged already"),
    "sustained": Duration(seconds=10 * _MINUTE, why="of what comes and goes by itself"),
    # How long it goes on firing.
    "flapping": Duration(seconds=30 * _MINUTE, why="at most one notification for what comes back within it"),
    "aftermath": Duration(
        seconds=15 * _MINUTE, why="an event, or a value of one version, is seen before it goes"
    ),
    # Thresholds that are times to wait.
    "heartbeat": Duration(seconds=3 * _MINUTE, why="sources speak every second, or every few"),
    "stalled": Duration(seconds=10 * _MINUTE, why="no version is overdue sooner"),
    "first_version": Duration(seconds=30 * _MINUTE, why="weights are loaded and kernels compiled before it"),
    "pause": Duration(seconds=_HOUR, why="a validation or checkpoint that takes longer hangs"),
    "warm_up": Duration(seconds=15 * _MINUTE, why="queues fill and caches warm"),
    "event": Duration(seconds=15 * _MINUTE, why="how long an event is news"),
    "checkpoint": Duration(seconds=6 * _HOUR, why="where the usual time between checkpoints is not known"),
    "checkpoint_least": Duration(seconds=_HOUR, why="no checkpoint is old sooner"),
    "certificate": Duration(seconds=CERTIFICATE_SOON_SECONDS, why="when the exporter's log tells of it, too"),
    "push_age": Duration(seconds=15 * _MINUTE, why="a receiver was restarted or upgraded meanwhile"),
}


def seconds(name: str, divisor: int = 1) -> float:
    """How long it is."""
    if name not in DURATIONS:
        raise DashboardError(f"a rule names the duration {name!r}; durations.py has {', '.join(DURATIONS)}")
    return DURATIONS[name].seconds / divisor


def written(name: str, divisor: int = 1) -> str:
    """As Prometheus writes it: 10m, 90s, 500ms."""
    milliseconds = round(1000 * seconds(name, divisor))
    for unit, length in (("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if milliseconds % length == 0:
            return f"{milliseconds // length}{unit}"
    return f"{milliseconds}ms"


def fill(expression: str, divisor: int = 1) -> str:
    """The expression with each `$name` as that duration; `$$` stands for a dollar."""
    template = Template(expression)
    return template.substitute({name: written(name, divisor) for name in template.get_identifiers()})
