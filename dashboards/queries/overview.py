"""Queries of the board overview."""

from dashboards.promql import code, newest, once, shown
from dashboards.query import Query
from dashboards.states import RUN_STATUS
from exporter import catalog

QUERIES = (
    Query(id="overview.status", expr=code(catalog.RUN_STATUS, RUN_STATUS.label, RUN_STATUS.values)),
    Query(id="overview.version", expr=once(shown(catalog.PARAM_VERSION))),
    Query(id="overview.trainer_idle", expr=newest(catalog.TRAINER_IDLE), legend="{{run}} trainer"),
)
