"""One query of a board."""

from typing import Literal

import msgspec


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """PromQL with an id, `<board>.<what>`, by which panels name it."""

    id: str
    expr: str
    legend: str = "{{run}}"
    kind: Literal["range", "instant"] = "range"
    format: Literal["time_series", "table", "heatmap"] = "time_series"
    optional: str = ""
    """Why a healthy run may have nothing to show here."""
