"""`stat`: one number or word, large."""

from typing import Any, ClassVar

from grafana_foundation_sdk.builders import common, stat
from grafana_foundation_sdk.models import common as models

from dashboards.components.colour import coded
from dashboards.components.options import PanelOptions
from dashboards.components.panel import DataPanel, filled


class StatOptions(PanelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`sparkline: true` draws the time range behind the number; `text` says what is written: the value, the
    name of the series, or both."""

    width: int = 3
    height: int = 4
    sparkline: bool = False
    text: models.BigValueTextMode = models.BigValueTextMode.AUTO


class Stat(DataPanel):
    """Its colour is a judgement where the panel has thresholds or states, else there is none."""

    options_type: ClassVar[type[PanelOptions]] = StatOptions

    def draw(self, options: Any) -> stat.Panel:
        panel = filled(stat.Panel(), options)
        states = options.named_states()
        if states:
            panel.mappings(coded(states))
        panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).fields("").values(False))
        panel.graph_mode(
            models.BigValueGraphMode.AREA if options.sparkline else models.BigValueGraphMode.NONE
        )
        judged = states or options.judged
        panel.color_mode(models.BigValueColorMode.VALUE if judged else models.BigValueColorMode.NONE)
        return panel.text_mode(options.text)
