"""Every query of the boards, by its id. PromQL lives here and in the rules, never in YAML."""

from dashboards.errors import DashboardError
from dashboards.queries import events, exporter, overview, rollouters, staleness, trainer, versions
from dashboards.query import Query


def _by_id(*tables: tuple[Query, ...]) -> dict[str, Query]:
    queries: dict[str, Query] = {}
    for query in (query for table in tables for query in table):
        if query.id in queries:
            raise DashboardError(f"two queries are called {query.id!r}")
        queries[query.id] = query
    return queries


QUERIES = _by_id(
    events.QUERIES,
    overview.QUERIES,
    versions.QUERIES,
    rollouters.QUERIES,
    staleness.QUERIES,
    trainer.QUERIES,
    exporter.QUERIES,
)
