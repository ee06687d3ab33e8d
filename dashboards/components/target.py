"""A query as the target of a panel, and what Grafana calls the values that it brings to a table."""

from typing import Final

from grafana_foundation_sdk.builders import prometheus
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from dashboards.components.encoding import PROMETHEUS
from dashboards.layout import letter
from dashboards.query import Query


def target(query: Query) -> prometheus.Dataquery:
    """A query as a target. The letter is given when the board is laid out."""
    made = (
        prometheus.Dataquery().expr(query.expr).datasource(PROMETHEUS).format(PromQueryFormat(query.format))
    )
    if query.format == "time_series":
        made.legend_format(query.legend)
    elif query.format == "heatmap":
        made.legend_format("{{le}}")
    return made.instant() if query.kind == "instant" else made.range()


ALONE: Final = "Value"
"""What Grafana calls the values of a table whose other queries, if any, found nothing."""


def value_field(position: int) -> str:
    """What it calls the values of the query at a place of several, from 0, once they are joined."""
    return f"{ALONE} #{letter(position)}"
