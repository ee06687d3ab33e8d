"""Units of the catalogue's families, as Grafana names them.

A family's name ends in its unit, before `_total`: that is how every family of /metrics is named. A panel that
shows something else of a family, such as its rate, names its unit itself.
"""

from typing import Final

from dashboards.errors import DashboardError
from exporter.catalog import Family

GRAFANA_UNITS: Final = {
    "ratio": "percentunit",
    "seconds": "s",
    "bytes": "bytes",
    "version": "none",
    "versions": "none",
    "attempt": "none",
    "updates": "none",
    "tokens": "none",
    "per_second": "short",
}
"""By the end of a family's name, the first that fits."""

PLAIN: Final = "short"
"""Of a number without a unit."""


def grafana_unit(family: Family) -> str:
    """What Grafana calls the family's unit."""
    name = family.name.removesuffix("_total")
    if name.endswith("_timestamp_seconds"):
        raise DashboardError(
            f"{name} is a time: a panel shows its age in `unit: s`, or times 1000 as a date, in a unit of Grafana's"
        )
    return next((unit for end, unit in GRAFANA_UNITS.items() if name.endswith(f"_{end}")), PLAIN)
