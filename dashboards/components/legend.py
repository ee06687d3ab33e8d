"""Legends and tooltips, alike on all graphs."""

from grafana_foundation_sdk.builders import common
from grafana_foundation_sdk.models import common as models


def legend(*calcs: str, shown: bool = True, right: bool = False) -> common.VizLegendOptions:
    """Below the graph; as a table where it has calculations, and then beside it if that is `right`."""
    mode = models.LegendDisplayMode.TABLE if calcs else models.LegendDisplayMode.LIST
    beside = models.LegendPlacement.RIGHT if calcs and right else models.LegendPlacement.BOTTOM
    made = common.VizLegendOptions().placement(beside).calcs(list(calcs))
    return made.show_legend(shown).display_mode(mode if shown else models.LegendDisplayMode.HIDDEN)


def tooltip() -> common.VizTooltipOptions:
    """All series at a time, the largest first."""
    return common.VizTooltipOptions().mode(models.TooltipDisplayMode.MULTI).sort(models.SortOrder.DESCENDING)
