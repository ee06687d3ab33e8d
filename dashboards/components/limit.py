"""Where good ends: the thresholds of the alerts, on panels."""

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models import dashboard as models

from dashboards.components.options import PanelOptions
from dashboards.errors import DashboardError
from dashboards.thresholds import THRESHOLDS


def limits(options: PanelOptions, *, good: str = "green") -> dashboard.ThresholdsConfig:
    """Red above one threshold of the alerts, below another, or both. Lines are drawn in the colour above them."""
    steps = [models.Threshold(value=None, color=good)]
    if options.below != "":
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
