"""`xychart`: a metric by parameter version.

Prometheus has no axis but time, so every version of the time range is asked for at once: an instant query in
table format whose rows carry the labels run, attempt and param_version. Transformations make the version a
number, sort by it and part the runs, so that each run is a line.
"""

from typing import Any, ClassVar, Final

from grafana_foundation_sdk.builders import dashboard as dashboard_builders
from grafana_foundation_sdk.builders import xychart
from grafana_foundation_sdk.models import dashboard
from grafana_foundation_sdk.models import xychart as models

from dashboards.components.axis import LINEAR, decades
from dashboards.components.colour import palette
from dashboards.components.encoding import Json
from dashboards.components.legend import legend, tooltip
from dashboards.components.options import PanelOptions
from dashboards.components.panel import DataPanel, filled
from dashboards.components.target import ALONE, value_field
from dashboards.errors import DashboardError
from dashboards.links import record, traces

X: Final = "param_version"
RUN: Final = ("run", "attempt")
_POINT: Final = ("${__field.labels.run:percentencode}", f"${{__data.fields.{X}}}")
_POINT_LINKS: Final = (traces(*_POINT), record(*_POINT))
_LINE_NAME: Final = "${__field.labels.run} #${__field.labels.attempt}"
_VERSION_AXIS: Final = [
    dashboard.DynamicConfigValue(id_val=option, value=value)
    for option, value in (
        ("unit", "none"),
        ("decimals", 0),
        ("displayName", "version"),
        # The bounds and the scale of the metric are not those of its versions.
        ("min", None),
        ("max", None),
        ("custom.scaleDistribution", LINEAR),
    )
]


class XychartOptions(PanelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`series` names the queries' values when there are several, in their order; `each` is a label besides run
    and attempt that has a line for each of its values."""

    series: tuple[str, ...] = ()
    each: str = ""
    logarithmic: bool = False


class Xychart(DataPanel):
    """A line for each run and attempt, and each query, under the name of all that tells it apart."""

    options_type: ClassVar[type[PanelOptions]] = XychartOptions

    def draw(self, options: Any) -> xychart.Panel:
        if len(options.queries) > 1 and len(options.series) != len(options.queries):
            raise DashboardError(f"panel {options.title!r}: `series` names each of several queries")
        panel = filled(xychart.Panel(), options)
        values = _values(options)
        lines = [*RUN, options.each] if options.each else [*RUN]
        for name, step in _transformations(lines, list(values)):
            panel.with_transformation(dashboard.DataTransformerConfig(id_val=name, options=step))
        for field, words in values.items():
            name = " ".join(
                [_LINE_NAME, *(f"${{__field.labels.{label}}}" for label in lines[2:]), words]
            ).strip()
            panel.override_by_name(field, [dashboard.DynamicConfigValue(id_val="displayName", value=name)])
        panel.override_by_name(X, _VERSION_AXIS)
        panel.mapping(models.SeriesMapping.AUTO).series([_by_version()])
        panel.show(models.XYShowMode.POINTS_AND_LINES)
        panel.point_size(xychart.XychartFieldConfigPointSize().fixed(4)).line_width(1).fill_opacity(50)
        if options.logarithmic:
            panel.scale_distribution(decades())
        panel.data_links(
            [
                dashboard_builders.DashboardLink(each.title).url(each.url).target_blank(True)
                for each in _POINT_LINKS
            ]
        )
        return panel.color_scheme(palette()).legend(legend()).tooltip(tooltip())


def _values(options: XychartOptions) -> dict[str, str]:
    """What Grafana calls the values of the queries, and the words we have for them."""
    several = enumerate(options.series) if len(options.queries) > 1 else ()
    return {ALONE: ""} | {value_field(position): words for position, words in several}


def _transformations(lines: list[str], values: list[str]) -> list[tuple[str, Json]]:
    return [
        ("merge", {}),
        (
            "convertFieldType",
            {"conversions": [{"targetField": X, "destinationType": "number"}], "fields": {}},
        ),
        ("filterFieldsByName", {"include": {"names": [*lines, X, *values]}}),
        ("sortBy", {"fields": {}, "sort": [{"field": X}]}),
        ("partitionByValues", {"fields": lines, "keepFields": False, "naming": {"asLabels": True}}),
    ]


def _by_version() -> xychart.XYSeriesConfig:
    version = xychart.MatcherConfig().id("byName").options(X)
    return xychart.XYSeriesConfig().x(xychart.XychartXYSeriesConfigX().matcher(version))
