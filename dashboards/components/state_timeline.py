"""`state-timeline`: what each process does at each moment, in the colours of its states."""

from typing import Any, ClassVar

from grafana_foundation_sdk.builders import statetimeline
from grafana_foundation_sdk.models import common as models

from dashboards.components.colour import coded
from dashboards.components.legend import legend, tooltip
from dashboards.components.options import PanelOptions
from dashboards.components.panel import DataPanel, filled
from dashboards.errors import DashboardError


class StateTimelineOptions(PanelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`states` is needed; `per_page` rows are shown at a time."""

    per_page: int = 20


class StateTimeline(DataPanel):
    """Coloured by value mappings alone: a threshold would paint bands in place of states."""

    options_type: ClassVar[type[PanelOptions]] = StateTimelineOptions

    def draw(self, options: Any) -> statetimeline.Panel:
        states = options.named_states()
        if states is None:
            raise DashboardError(f"panel {options.title!r}: a state-timeline needs `states`")
        panel = filled(statetimeline.Panel(), options).mappings(coded(states))
        panel.merge_values(True).show_value(models.VisibilityMode.NEVER).row_height(0.85).per_page(
            options.per_page
        )
        panel.align_value(models.TimelineValueAlignment.LEFT).fill_opacity(80).line_width(0)
        return panel.legend(legend()).tooltip(tooltip())
