"""What every panel with queries has in common: its options in YAML, and what follows from its family."""

import json
from typing import Any, ClassVar, Final, TypeVar

import msgspec
from grafana_dashboards.components.panels import PanelsItemBase
from grafana_foundation_sdk.builders import (
    bargauge,
    dashboard,
    heatmap,
    prometheus,
    stat,
    statetimeline,
    table,
    timeseries,
    xychart,
)
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from dashboards.errors import DashboardError
from dashboards.layout import letter
from dashboards.links import board_url
from dashboards.promql import REPORTED, is_interpolated, is_reported
from dashboards.queries import QUERIES
from dashboards.query import Query
from dashboards.states import STATES, States
from dashboards.thresholds import THRESHOLDS
from dashboards.units import PLAIN, grafana_unit
from exporter.catalog import FAMILY_BY_NAME, PREFIX, Family

Json = dict[str, Any]

PROMETHEUS = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
"""The data source that the reader of a board chooses; no board knows another."""

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


class PanelOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of all panels with queries. dashboards/README.md explains them."""

    title: str
    about: str
    queries: tuple[str, ...]
    family: str = ""
    width: int = 8
    height: int = 8
    unit: str = ""
    decimals: int | None = None
    min: float | None = None
    max: float | None = None
    no_value: str = ""
    states: str = ""
    colours: dict[str, str] = {}
    per_run: bool = False
    above: str | float = ""
    below: str | float = ""
    details: str = ""

    def chosen_queries(self) -> tuple[Query, ...]:
        missing = [name for name in self.queries if name not in QUERIES]
        if missing or not self.queries:
            raise DashboardError(f"panel {self.title!r}: no query {missing}; queries/ has {sorted(QUERIES)}")
        return tuple(QUERIES[name] for name in self.queries)

    def catalogue_family(self) -> Family | None:
        if not self.family:
            return None
        if self.family not in FAMILY_BY_NAME:
            raise DashboardError(f"panel {self.title!r}: {self.family!r} is no family of exporter/catalog.py")
        return FAMILY_BY_NAME[self.family]

    @property
    def judged(self) -> bool:
        """Whether some values of it are bad by a threshold."""
        return self.above != "" or self.below != ""

    def shown_unit(self) -> str:
        family = self.catalogue_family()
        return self.unit or (grafana_unit(family) if family else PLAIN)

    def named_states(self) -> States | None:
        if not self.states:
            return None
        if self.states not in STATES:
            raise DashboardError(
                f"panel {self.title!r}: no states {self.states!r}; there are {sorted(STATES)}"
            )
        return STATES[self.states]


class DataPanel(PanelsItemBase):
    """A panel that shows queries. Subclasses read their own options and draw."""

    options_type: ClassVar[type[PanelOptions]] = PanelOptions

    def gen_json_from_data(self, data: Json, context: object) -> Json:
        try:
            options = msgspec.convert(data, self.options_type)
        except msgspec.ValidationError as error:
            raise DashboardError(f"panel {data.get('title', '')!r}: {error}") from error
        return plain(self.draw(options))

    def draw(self, options: Any) -> Builder:
        raise NotImplementedError


def plain(builder: Any) -> Json:
    """What a typed builder builds, as JSON."""
    encoded: Json = json.loads(json.dumps(builder.build(), cls=JSONEncoder))
    return encoded


def filled(builder: BuilderType, options: PanelOptions) -> BuilderType:
    """The builder with all that every panel has."""
    family = options.catalogue_family()
    builder.title(options.title).description(described(options)).datasource(PROMETHEUS)
    builder.grid_pos(models.GridPos(h=options.height, w=options.width))
    for query in options.chosen_queries():
        builder.with_target(target(query))
    builder.unit(options.shown_unit())
    # States are shown as their codes, which have another range.
    low, high = (family.low, family.high) if family and not options.states else (None, None)
    for bound, given, natural in (("min", options.min, low), ("max", options.max, high)):
        value = natural if given is None else given
        if value is not None:
            getattr(builder, bound)(value)
    if options.decimals is not None:
        builder.decimals(options.decimals)
    if options.no_value:
        builder.no_value(options.no_value)
    if options.details:
        link = dashboard.DashboardLink(f"Board {options.details}").type(models.DashboardLinkType.LINK)
        builder.links([link.url(board_url(options.details))])
    builder.thresholds(limits(options))  # without any, Grafana would make 80 the border of good and bad
    if options.per_run:
        builder.repeat("run").repeat_direction("v")  # "h" would widen it to the whole board
    return builder


def described(options: PanelOptions) -> str:
    """What the family is, what is good or bad about it, and where the numbers come from."""
    family = options.catalogue_family()
    parts = [f"{family.help}."] if family else []
    parts.append(options.about.strip())
    if family:
        parts.append(f"Metric: `{family.name}`.")
    if any(is_interpolated(query.expr) for query in options.chosen_queries()):
        parts.append(
            "A percentile is over the rate window, and interpolated within a bucket of the histogram: it may lie"
            " above the maximum, which is exact and of the newest version."
        )
    if any(is_reported(query.expr) for query in options.chosen_queries()):
        parts.append(f"Of a foreign trainer, what it reports itself (`{PREFIX}{REPORTED}...`).")
    return "\n\n".join(parts)


def limits(options: PanelOptions, *, good: str = "green") -> dashboard.ThresholdsConfig:
    """Red above one threshold of the alerts, below another, or both. Lines are drawn in the colour above them."""
    steps = [models.Threshold(value=None, color=good)]
    if options.below:
        steps = [
            models.Threshold(value=None, color="red"),
            models.Threshold(value=_number(options.below), color=good),
        ]
    if options.above != "":
        steps.append(models.Threshold(value=_number(options.above), color="red"))
    return dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps)


def _number(name: str | float) -> float:
    """A threshold by its name, or a number that is none of the alerts'."""
    if not isinstance(name, str):
        return name
    if name not in THRESHOLDS:
        raise DashboardError(f"no threshold {name!r}; thresholds.py has {sorted(THRESHOLDS)}")
    return THRESHOLDS[name].number()


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


def coded(states: States) -> list[models.ValueMapping]:
    """From the codes of `promql.code` to words and colours."""
    none = models.ValueMappingResult(text=states.none, color=states.none_colour, index=0)
    results = {"0": none} | {
        str(code): models.ValueMappingResult(text=value, color=states.colours[value], index=code)
        for code, value in enumerate(states.values, 1)
    }
    return [models.ValueMap(options=results)]


def _colour(mode: str, colour: str) -> models.DynamicConfigValue:
    return models.DynamicConfigValue(id_val="color", value={"mode": mode, "fixedColor": colour})


def coloured(builder: BuilderType, options: PanelOptions) -> BuilderType:
    """Series in the colours of the states that their names end in, and in shades of those of the panel's own."""
    states = options.named_states()
    for state, colour in (states.colours if states else {}).items():
        builder.override_by_regexp(named(state), [_colour("fixed", colour)])
    for end, colour in options.colours.items():
        builder.override_by_regexp(named(end), [_colour("shades", colour)])
    return builder


def named(end: str) -> str:
    """Matches series by the last words of their names."""
    return f"/(^|.* ){end}$/"


def palette() -> dashboard.FieldColor:
    """The colours that are easiest to tell apart, in the order of the series."""
    return dashboard.FieldColor().mode(models.FieldColorModeId.PALETTE_CLASSIC)
