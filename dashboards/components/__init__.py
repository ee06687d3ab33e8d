"""The types of the YAML in boards/: a class here is a type there, by its name in kebab-case.

They must have been imported before the registry of grafana-dashboard-builder is made; its own types of the same
names (table, stat, text, row) are older panels, and give way.
"""

from dashboards.components.annotation import Event
from dashboards.components.bargauge import Bargauge
from dashboards.components.board import Board
from dashboards.components.heatmap import Heatmap
from dashboards.components.link import TagLink
from dashboards.components.row import Row
from dashboards.components.stat import Stat
from dashboards.components.state_timeline import StateTimeline
from dashboards.components.table import Table
from dashboards.components.text import Text
from dashboards.components.timeseries import Timeseries
from dashboards.components.variable import DataSourceVariable, LabelVariable, TextboxVariable
from dashboards.components.xychart import Xychart

__all__ = [
    "Bargauge",
    "Board",
    "DataSourceVariable",
    "Event",
    "Heatmap",
    "LabelVariable",
    "Row",
    "Stat",
    "StateTimeline",
    "Table",
    "TagLink",
    "Text",
    "TextboxVariable",
    "Timeseries",
    "Xychart",
]
