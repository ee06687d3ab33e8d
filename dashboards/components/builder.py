"""The typed builders of panels with queries. They have their common methods without a common type."""

from typing import TypeVar

from grafana_foundation_sdk.builders import (
    bargauge,
    heatmap,
    stat,
    statetimeline,
    table,
    timeseries,
    xychart,
)

Builder = (
    timeseries.Panel
    | stat.Panel
    | table.Panel
    | heatmap.Panel
    | statetimeline.Panel
    | bargauge.Panel
    | xychart.Panel
)
BuilderType = TypeVar(
    "BuilderType",
    timeseries.Panel,
    stat.Panel,
    table.Panel,
    heatmap.Panel,
    statetimeline.Panel,
    bargauge.Panel,
    xychart.Panel,
)
