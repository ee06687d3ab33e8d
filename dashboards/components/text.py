"""`text`: words on a board."""

import msgspec
from grafana_dashboards.components.panels import PanelsItemBase
from grafana_foundation_sdk.builders import text
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.text import TextMode

from dashboards.components.encoding import Json, plain
from dashboards.components.options import read


class TextOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`content` is Markdown."""

    content: str
    title: str = ""
    width: int = 24
    height: int = 3


class Text(PanelsItemBase):
    """The one panel without a query."""

    def gen_json_from_data(self, data: Json, context: object) -> Json:
        options = read(data, TextOptions)
        panel = text.Panel().title(options.title).mode(TextMode.MARKDOWN).content(options.content.strip())
        return plain(panel.grid_pos(models.GridPos(h=options.height, w=options.width)))
