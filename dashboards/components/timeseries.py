"""`timeseries`: a graph over time."""

from typing import Any, ClassVar

from grafana_foundation_sdk.builders import common, timeseries
from grafana_foundation_sdk.models import common as models
from grafana_foundation_sdk.models.dashboard import DynamicConfigValue

from dashboards.components.axis import decades
from dashboards.components.colour import coloured, named, palette
from dashboards.components.legend import legend, tooltip
from dashboards.components.limit import limits
from dashboards.components.options import PanelOptions
from dashboards.components.panel import DataPanel, filled

FILL_OPACITY = 70
"""Of stacks and bars; areas under lines would lie over each other."""
WIDE = 12
"""Columns from which a table of a legend has room beside the graph."""
DASHES = DynamicConfigValue(id_val="custom.lineStyle", value={"fill": "dash", "dash": [8, 8]})
NO_AREA = DynamicConfigValue(id_val="custom.fillOpacity", value=0)


class TimeseriesOptions(PanelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`stack: true` adds the series up, `logarithmic: true` is for what spans decades, `steps: true` for counts
    that hold until they change, `dashed` for limits, by the end of a series' name; `soft_max` is where the axis
    ends as long as no value is above; `calcs` makes the legend a table."""

    stack: bool = False
    logarithmic: bool = False
    steps: bool = False
    bars: bool = False
    dashed: tuple[str, ...] = ()
    soft_max: float | None = None
    calcs: tuple[str, ...] = ()


class Timeseries(DataPanel):
    """Lines, or areas that are stacked."""

    options_type: ClassVar[type[PanelOptions]] = TimeseriesOptions

    def draw(self, options: Any) -> timeseries.Panel:
        panel = coloured(filled(timeseries.Panel(), options), options)
        panel.color_scheme(palette()).legend(legend(*options.calcs, right=options.width >= WIDE)).tooltip(
            tooltip()
        )
        panel.show_points(models.VisibilityMode.AUTO).axis_border_show(False)
        panel.draw_style(models.GraphDrawStyle.BARS if options.bars else models.GraphDrawStyle.LINE)
        interpolation = (
            models.LineInterpolation.STEP_AFTER if options.steps else models.LineInterpolation.LINEAR
        )
        panel.line_interpolation(interpolation).line_width(0 if options.stack else 2)
        panel.fill_opacity(FILL_OPACITY if options.stack or options.bars else 0)
        if options.soft_max is not None:
            panel.axis_soft_max(options.soft_max)
        if options.judged:
            dashes = common.GraphThresholdsStyleConfig().mode(models.GraphThresholdsStyleMode.DASHED)
            panel.thresholds(limits(options, good="red")).thresholds_style(dashes)
        for end in options.dashed:
            panel.override_by_regexp(named(end), [DASHES, NO_AREA])
        if options.stack:
            panel.stacking(common.StackingConfig().mode(models.StackingMode.NORMAL).group("A"))
        if options.logarithmic:
            panel.scale_distribution(decades())
        return panel
