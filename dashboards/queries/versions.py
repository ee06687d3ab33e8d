"""Queries of the board versions."""

from dashboards.query import Query

QUERIES: tuple[Query, ...] = ()
