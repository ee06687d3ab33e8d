"""Legends and tooltips, alike on all graphs."""

from grafana_foundation_sdk.builders import common
from grafana_foundation_sdk.models import common as models


def legend(*calcs: str, shown: bool = True) -> common.VizLegendOptions:
    """Below the graph; as a table where it has calculations."""
    mode = models.LegendDisplayMode.TABLE if calcs else models.LegendDisplayMode.LIST
    made = common.VizLegendOptions().placement(models.LegendPlacement.BOTTOM).calcs(list(calcs))
    return made.show_legend(shown).display_mode(mode if shown else models.LegendDisplayMode.HIDDEN)


def tooltip() -> common.VizTooltipOptions:
    """All series at a time, the largest first."""
    return common.VizTooltipOptions().mode(models.TooltipDisplayMode.MULTI).sort(models.SortOrder.DESCENDING)
