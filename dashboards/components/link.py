"""`tag-link`: from a board to all boards with a tag."""

import msgspec
from grafana_dashboards.components.links import LinksItemBase
from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models.dashboard import DashboardLinkType

from dashboards.components.encoding import Json, plain
from dashboards.components.options import read


class TagLinkOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The boards that carry `tag`."""

    title: str
    tag: str


class TagLink(LinksItemBase):
    """The runs and the time range that are chosen stay chosen."""

    def gen_json_from_data(self, data: Json, context: object) -> Json:
        options = read(data, TagLinkOptions)
        made = dashboard.DashboardLink(options.title).type(DashboardLinkType.DASHBOARDS).tags([options.tag])
        return plain(made.as_dropdown(False).include_vars(True).keep_time(True).icon("external link"))
