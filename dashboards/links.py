"""Where boards lead: to each other, to runbooks, to the trace and to the record of a version.

Grafana fills in `${...}`: the variables of the board, the value of the cell, the other cells of its row by the
titles of their columns.
"""

from typing import Final

import msgspec

from dashboards.alert import RUNBOOKS

UID_PREFIX: Final = "asyncrl-"
"""Of the boards' uids."""

_TRACES_OF_VERSION: Final = (
    "{resource.rl.run.id=%5C%22${__data.fields.Run}%5C%22"
    " %26%26 span.asyncrl.param_version=${__data.fields.Version}}"
)
_EXPLORE_PANE: Final = (
    '{"t":{"datasource":"${traces}","queries":[{"refId":"A","queryType":"traceql","query":"%s"}],'
    '"range":{"from":"${__from}","to":"${__to}"}}}'
)


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """What a click says and where it leads."""

    title: str
    url: str


def board_url(name: str, run: str = "${run:queryparam}") -> str:
    """Another board, with the data source and the time range that are chosen here."""
    return f"/d/{UID_PREFIX}{name}?${{datasource:queryparam}}&{run}&${{__url_time_range}}"


LINKS: Final = {
    "runbook": Link(title="Runbook", url=f"{RUNBOOKS}/${{__value.raw}}.md"),
    "versions": Link(title="Versions of this run", url=board_url("versions", "var-run=${__value.raw}")),
    "traces": Link(
        title="Traces of this version",
        url=f"/explore?schemaVersion=1&panes={_EXPLORE_PANE % _TRACES_OF_VERSION}".replace(
            " ", "%20"
        ).replace('"', "%22"),
    ),
    "record": Link(
        title="Record of this version",
        url="${exporter}/api/v1/runs/${__data.fields.Run:percentencode}/versions"
        "?from=${__data.fields.Version}&to=${__data.fields.Version}",
    ),
}
"""By the name that columns use."""
