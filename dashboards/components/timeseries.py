"""`timeseries`: a graph over time."""

from typing import Any, ClassVar

from grafana_foundation_sdk.builders import common, timeseries
from grafana_foundation_sdk.models import common as models
from grafana_foundation_sdk.models.dashboard import DynamicConfigValue

from dashboards.components.legend import legend, tooltip
from dashboards.components.panel import DataPanel, PanelOptions, coloured, filled, named, palette

FILL_OPACITY = 10
STACKED_FILL_OPACITY = 70
DASHES = DynamicConfigValue(id_val="custom.lineStyle", value={"fill": "dash", "dash": [8, 8]})
NO_AREA = DynamicConfigValue(id_val="custom.fillOpacity", value=0)


class TimeseriesOptions(PanelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`stack: true` adds the series up, `logarithmic: true` is for what spans decades, `steps: true` for counts
    that hold until they change, `dashed` for limits, by the end of a series' name; `calcs` makes the legend a
    table."""

    stack: bool = False
    logarithmic: bool = False
    steps: bool = False
    bars: bool = False
    dashed: tuple[str, ...] = ()
    calcs: tuple[str, ...] = ()


class Timeseries(DataPanel):
    """Lines, or areas that are stacked."""

    options_type: ClassVar[type[PanelOptions]] = TimeseriesOptions

    def draw(self, options: Any) -> timeseries.Panel:
        panel = coloured(filled(timeseries.Panel(), options), options)
        panel.color_scheme(palette()).legend(legend(*options.calcs)).tooltip(tooltip())
        panel.show_points(models.VisibilityMode.AUTO).axis_border_show(False)
        panel.draw_style(models.GraphDrawStyle.BARS if options.bars else models.GraphDrawStyle.LINE)
        interpolation = (
            models.LineInterpolation.STEP_AFTER if options.steps else models.LineInterpolation.LINEAR
        )
        panel.line_interpolation(interpolation).line_width(0 if options.stack else 2)
        panel.fill_opacity(STACKED_FILL_OPACITY if options.stack or options.bars else FILL_OPACITY)
        if options.judged:
            panel.thresholds_style(
                common.GraphThresholdsStyleConfig().mode(models.GraphThresholdsStyleMode.DASHED)
            )
        for end in options.dashed:
            panel.override_by_regexp(named(end), [DASHES, NO_AREA])
        if options.stack:
            panel.stacking(common.StackingConfig().mode(models.StackingMode.NORMAL).group("A"))
        if options.logarithmic:
            scale = common.ScaleDistributionConfig().type(models.ScaleDistribution.LOG).log(10)
            panel.scale_distribution(scale)
        return panel
