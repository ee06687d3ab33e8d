"""`row`: panels that belong together, under a title or, without one, under none."""

from typing import Any

from grafana_dashboards.components.panels import Panels
from grafana_dashboards.components.rows import RowsItemBase
from grafana_foundation_sdk.builders import dashboard

from dashboards.components.encoding import Json, plain


class Row(RowsItemBase):
    """A list of panels: those of an open row follow it, those of a `collapsed` one lie in it."""

    def gen_json_from_data(self, data: Json, context: object) -> list[Json]:
        panels: list[Json] = self.registry.create_component(Panels, data).gen_json()
        if not data.get("title"):
            return panels
        row: dict[str, Any] = plain(dashboard.Row(data["title"]).collapsed(bool(data.get("collapsed"))))
        return [row | {"panels": panels}] if data.get("collapsed") else [row, *panels]
