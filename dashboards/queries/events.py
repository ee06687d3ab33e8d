"""What is marked on the time axis of all boards.

The value of a `..._timestamp_seconds` gauge is the time of the mark, in milliseconds as Grafana wants it: exact,
and the same mark however often it was scraped.
"""

from dashboards.promql import once, shown
from dashboards.query import Query
from exporter import catalog

MILLISECONDS = 1000


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
        expr='ALERTS{alertstate="firing",alertname=~"AsyncRL.+",alertname!="AsyncRLWatchdog",run=~"$run|"}',
        optional="nothing fires while all is well",
    ),
)
