"""`board`: a whole dashboard."""

from typing import Any, Final

import msgspec
from grafana_dashboards.components.annotations import Annotations
from grafana_dashboards.components.base import JsonGenerator
from grafana_dashboards.components.links import Links
from grafana_dashboards.components.rows import Rows
from grafana_dashboards.components.templates import Templates
from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models.dashboard import DashboardCursorSync

from dashboards.components.encoding import Json, plain
from dashboards.components.options import read
from dashboards.layout import laid_out
from dashboards.links import UID_PREFIX

TAG: Final = "asyncrl"
TIME_RANGE: Final = ("now-3h", "now")
REFRESH: Final = "30s"


class BoardOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Lists of variables, marks, links and rows; those that are words are names in shared.yaml."""

    title: str
    description: str
    templates: list[Any]
    annotations: list[Any]
    links: list[Any]
    rows: list[Any]


class Board(JsonGenerator):
    """Its name is its file's and, prefixed, its uid. Not editable: it is generated."""

    def gen_json_from_data(self, data: Json, context: object) -> Json:
        options = read(data, BoardOptions)
        made = (
            dashboard.Dashboard(options.title)
            .uid(f"{UID_PREFIX}{self.name}")
            .description(options.description)
        )
        made.tags([TAG]).readonly().tooltip(DashboardCursorSync.CROSSHAIR).time(*TIME_RANGE).refresh(REFRESH)
        lists = {
            name: self.registry.create_component(kind, data).gen_json()
            for name, kind in (("templates", Templates), ("annotations", Annotations), ("links", Links))
        }
        return plain(made) | {
            "templating": {"list": lists["templates"]},
            "annotations": {"list": lists["annotations"]},
            "links": lists["links"],
            "panels": laid_out(self.registry.create_component(Rows, data).gen_json()),
        }
