"""`event`: marks on the time axis of every graph of a board."""

import msgspec
from grafana_dashboards.components.annotations import AnnotationsItemBase
from grafana_foundation_sdk.builders import dashboard

from dashboards.components.encoding import PROMETHEUS, Json, plain
from dashboards.components.options import read
from dashboards.errors import DashboardError
from dashboards.queries import QUERIES


class EventOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`title` and `text` are templates of the series' labels. With `at_value` the value of the series is the
    time of the mark, without it a mark spans the time that the series exists. `shown: false`: until asked for."""

    name: str
    query: str
    colour: str
    title: str
    text: str
    at_value: bool = True
    shown: bool = True


class Event(AnnotationsItemBase):
    """An annotation from Prometheus. What the typed builder does not know is what Grafana's Prometheus source reads."""

    def gen_json_from_data(self, data: Json, context: object) -> Json:
        options = read(data, EventOptions)
        if options.query not in QUERIES:
            raise DashboardError(
                f"mark {options.name!r}: no query {options.query!r}; queries/ has {sorted(QUERIES)}"
            )
        expr = QUERIES[options.query].expr
        made = (
            dashboard.AnnotationQuery().name(options.name).datasource(PROMETHEUS).icon_color(options.colour)
        )
        return plain(made.enable(options.shown).expr(expr)) | {
            "target": {"expr": expr, "refId": f"Anno {options.name}"},
            "titleFormat": options.title,
            "textFormat": options.text,
            "useValueForTime": options.at_value,
        }
