"""Units of the catalogue's families, as Grafana names them.

A family's name ends in its unit, before `_total`: that is how every family of /metrics is named. A panel that
shows something else of a family, such as its rate, names its unit itself.
"""

from typing import Final

from exporter.catalog import Family

GRAFANA_UNITS: Final = {
    "ratio": "percentunit",
    "timestamp_seconds": "dateTimeAsIso",
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
    return next((unit for end, unit in GRAFANA_UNITS.items() if name.endswith(f"_{end}")), PLAIN)
