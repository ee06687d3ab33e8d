"""What every panel with queries has in common, and what follows from its family."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from grafana_dashboards.components.panels import PanelsItemBase
from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models import dashboard as models

from dashboards.components.builder import Builder, BuilderType
from dashboards.components.encoding import PROMETHEUS, Json, plain
from dashboards.components.limit import limits
from dashboards.components.options import PanelOptions, read
from dashboards.components.target import target
from dashboards.links import board_url
from dashboards.promql import REPORTED, is_interpolated, is_reported
from exporter.catalog import PREFIX


class DataPanel(PanelsItemBase, ABC):
    """A panel that shows queries. Subclasses read their own options and draw."""

    options_type: ClassVar[type[PanelOptions]] = PanelOptions

    def gen_json_from_data(self, data: Json, context: object) -> Json:
        return plain(self.draw(read(data, self.options_type)))

    @abstractmethod
    def draw(self, options: Any) -> Builder:
        """The panel, by Grafana's builders."""


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
