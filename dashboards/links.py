"""Where boards lead: to each other, to runbooks, to the trace and to the record of a version.

Grafana fills in `${...}`: the variables of the board, the value of the cell, the other cells of its row by the
titles of their columns.
"""

from typing import Final

import msgspec

from dashboards.alert import RUNBOOKS

UID_PREFIX: Final = "asyncrl-"
"""Of the boards' uids."""

_EXPLORE_PANE: Final = (
    '{{"t":{{"datasource":"${{traces}}","queries":[{{"refId":"A","queryType":"traceql","query":'
    '"{{resource.rl.run.id=%5C"{run}%5C" %26%26 span.asyncrl.param_version={version}}}"}}],'
    '"range":{{"from":"${{__from}}","to":"${{__to}}"}}}}}}'
)
"""A search for traces in Grafana's Explore: JSON, with the query in it once more quoted."""


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """What a click says and where it leads."""

    title: str
    url: str


def board_url(name: str, run: str = "${run:queryparam}") -> str:
    """Another board, with the data source and the time range that are chosen here."""
    return f"/d/{UID_PREFIX}{name}?${{datasource:queryparam}}&{run}&${{__url_time_range}}"


def traces(run: str, version: str) -> Link:
    """The traces of a version. `run` and `version` are what Grafana puts in their place."""
    pane = _EXPLORE_PANE.format(run=run, version=version).replace('"', "%22").replace(" ", "%20")
    return Link(title="Traces of this version", url=f"/explore?schemaVersion=1&panes={pane}")


def record(run: str, version: str) -> Link:
    """All that is known of a version, in the history of the exporter."""
    url = f"${{exporter}}/api/v1/runs/{run}/versions?from={version}&to={version}"
    return Link(title="Record of this version", url=url)


_CELLS: Final = ("${__data.fields.Run:percentencode}", "${__data.fields.Version}")

LINKS: Final = {
    "runbook": Link(title="Runbook", url=f"{RUNBOOKS}/${{__value.raw}}.md"),
    "versions": Link(
        title="Versions of this run", url=board_url("versions", "var-run=${__value.raw:percentencode}")
    ),
    "traces": traces(*_CELLS),
    "record": record(*_CELLS),
}
"""By the name that columns of tables use."""
