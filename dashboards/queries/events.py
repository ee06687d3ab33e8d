"""What is marked on the time axis of all boards.

The value of a `..._timestamp_seconds` gauge is the time of the mark, in milliseconds as Grafana wants it: exact,
and the same mark however often it was scraped.
"""

from typing import Final

from dashboards.alert import PREFIX
from dashboards.promql import once, shown
from dashboards.query import Query
from exporter import catalog

MILLISECONDS: Final = 1000

WATCHDOG: Final = f'alertname="{PREFIX}Watchdog"'
OURS: Final = f'alertname=~"{PREFIX}.+",run=~"$run|"'
"""Alerts of the chosen runs, and those that name no run."""
FIRING: Final = f'ALERTS{{alertstate="firing",{OURS}}} unless ALERTS{{{WATCHDOG}}}'
"""What is wrong. The Watchdog fires when all is well."""


def _time_of(family: catalog.Family) -> str:
    return f"{once(shown(family))} * {MILLISECONDS}"


QUERIES = (
    Query(id="events.version", expr=_time_of(catalog.LAST_VERSION)),
    Query(
        id="events.checkpoint",
        expr=_time_of(catalog.LAST_CHECKPOINT),
        optional="a run may write no checkpoints",
    ),
    Query(
        id="events.validation", expr=_time_of(catalog.LAST_VALIDATION), optional="a run may validate nothing"
    ),
    Query(id="events.attempt", expr=_time_of(catalog.ATTEMPT_START)),
    Query(
        id="events.alert",
        expr=FIRING,
        optional="nothing fires while all is well",
    ),
)
