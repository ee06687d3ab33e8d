"""`row`: panels that belong together, under a title or, without one, under none."""

from typing import Any

import msgspec
from grafana_dashboards.components.panels import Panels
from grafana_dashboards.components.rows import RowsItemBase
from grafana_foundation_sdk.builders import dashboard

from dashboards.components.encoding import Json, plain
from dashboards.components.options import read


class RowOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`collapsed: true` is closed at first."""

    panels: list[Any]
    title: str = ""
    collapsed: bool = False


class Row(RowsItemBase):
    """A list of panels: those of an open row follow it, those of a collapsed one lie in it."""

    def gen_json_from_data(self, data: Json, context: object) -> list[Json]:
        options = read(data, RowOptions)
        panels: list[Json] = self.registry.create_component(Panels, data).gen_json()
        if not options.title:
            return panels
        row = plain(dashboard.Row(options.title).collapsed(options.collapsed))
        return [row | {"panels": panels}] if options.collapsed else [row, *panels]
