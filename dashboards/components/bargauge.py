"""`bargauge`: a bar for each series, as it is now."""

from typing import Any, ClassVar

from grafana_foundation_sdk.builders import bargauge, common
from grafana_foundation_sdk.models import common as models

from dashboards.components.colour import coloured, palette
from dashboards.components.options import PanelOptions
from dashboards.components.panel import DataPanel, filled


class Bargauge(DataPanel):
    """Horizontal bars with the series' names beside them."""

    options_type: ClassVar[type[PanelOptions]] = PanelOptions

    def draw(self, options: Any) -> bargauge.Panel:
        panel = coloured(filled(bargauge.Panel(), options), options).color_scheme(palette())
        panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).fields("").values(False))
        panel.orientation(models.VizOrientation.HORIZONTAL).display_mode(models.BarGaugeDisplayMode.BASIC)
        return panel.show_unfilled(True)
