"""`heatmap`: a distribution over time, from the classic buckets of a histogram."""

from typing import Any

from grafana_foundation_sdk.builders import heatmap
from grafana_foundation_sdk.models import common as models
from grafana_foundation_sdk.models import heatmap as heatmap_models

from dashboards.components.panel import DataPanel, filled


class Heatmap(DataPanel):
    """Its unit is that of the buckets; cells count observations."""

    def draw(self, options: Any) -> heatmap.Panel:
        panel = filled(heatmap.Panel(), options)
        colours = heatmap.HeatmapColorOptions().mode(heatmap_models.HeatmapColorMode.SCHEME).scheme("Oranges")
        panel.color(
            colours.scale(heatmap_models.HeatmapColorScale.EXPONENTIAL).exponent(0.5).steps(64).reverse(True)
        )
        panel.calculate(False).cell_gap(1).show_legend()
        panel.rows_frame(heatmap.RowsHeatmapOptions().layout(models.HeatmapCellLayout.AUTO))
        panel.y_axis(
            heatmap.YAxisConfig().axis_placement(models.AxisPlacement.LEFT).unit(options.shown_unit())
        )
        panel.cell_values(heatmap.CellValues().unit("short"))
        panel.mode(models.TooltipDisplayMode.SINGLE).show_y_histogram()
        return panel.filter_values(heatmap.FilterValueRange().le(1e-9))
