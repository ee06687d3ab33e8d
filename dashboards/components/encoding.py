"""From typed builders to JSON, and the one data source of all of it."""

import json
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import DataSourceRef

Json = dict[str, Any]

PROMETHEUS = DataSourceRef(type_val="prometheus", uid="${datasource}")
"""The data source that the reader of a board chooses; no board knows another."""


def plain(builder: Any) -> Json:
    """What a typed builder builds, as JSON."""
    encoded: Json = json.loads(json.dumps(builder.build(), cls=JSONEncoder))
    return encoded
