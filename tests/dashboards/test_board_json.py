"""The generated boards as JSON: what Grafana's schema says of them, and rules of our own for every panel."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from tests.dashboards.board_files import BOARDS, GENERATED, panels

SCHEMAS = Path(__file__).parents[3] / "shared" / "grafana-schema-11.6"
NAMES = {"overview", "versions", "rollouters", "staleness", "trainer", "exporter"}
PANEL_TYPES = {
    "timeseries",
    "stat",
    "table",
    "heatmap",
    "state-timeline",
    "xychart",
    "bargauge",
    "text",
    "row",
}
LARGEST_BYTES = 256 * 1024
LONGEST_UID = 40
FEWEST_WORDS = 8
"""Of a description."""
COLUMNS = 24

PROMETHEUS = {"type": "prometheus", "uid": "${datasource}"}
READ_BY_PROMETHEUS = ("target", "titleFormat", "textFormat", "useValueForTime")
"""Of a mark; Grafana's schema leaves what a data source reads to the data source."""

every_board = pytest.mark.parametrize("name", BOARDS)


def shown(name: str) -> list[dict[str, Any]]:
    """The panels of a board that have queries."""
    return [panel for panel in panels(BOARDS[name]) if panel["type"] not in ("row", "text")]


def schema(file: str, definition: str = "") -> dict[str, Any]:
    """A schema of Grafana's, or one of its definitions. Where they do not lie the test is skipped."""
    path = SCHEMAS / f"{file}.jsonschema.json"
    if not path.is_file():
        pytest.skip(f"{path} is not here")
    whole: dict[str, Any] = anything(json.loads(path.read_text(encoding="utf-8")))
    return whole | {"$ref": f"#/definitions/{definition}"} if definition else whole


def typed(board: dict[str, Any]) -> dict[str, Any]:
    """The board without what neither schema nor types know."""
    marks = [
        {key: value for key, value in mark.items() if key not in READ_BY_PROMETHEUS}
        for mark in board["annotations"]["list"]
    ]
    return board | {"annotations": {"list": marks}}


def board_schema() -> dict[str, Any]:
    """The schema of a dashboard, and in two places more than it knows: the lower end of the first threshold is
    null, as it says itself, and a mark has what its data source reads."""
    whole = schema("dashboard")
    definitions = whole["definitions"]
    definitions["Threshold"]["properties"]["value"] = {"type": ["number", "null"]}
    definitions["AnnotationQuery"]["additionalProperties"] = True
    definitions["AnnotationQuery"]["properties"]["target"] = {"required": ["expr", "refId"]}
    return whole


def anything(value: Any) -> Any:
    """What Grafana's types call anything came into its schemas as any object."""
    if isinstance(value, list):
        return [anything(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") == "object" and value.get("additionalProperties") == {}:
        return {}
    return {key: anything(inner) for key, inner in value.items()}


def values_of(value: Any, key: str) -> Iterator[Any]:
    """Every value under `key`, at any depth."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == key:
                yield inner
            yield from values_of(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from values_of(inner, key)


def test_there_are_six_boards() -> None:
    assert set(BOARDS) == NAMES


@every_board
def test_a_board_is_what_grafana_s_schema_says(name: str) -> None:
    jsonschema.validate(BOARDS[name], board_schema())
    for panel in panels(BOARDS[name]):
        for target in panel.get("targets", []):
            jsonschema.validate(target, schema("prometheus"))
        if panel["type"] == "row":
            continue
        file = panel["type"].replace("-", "")
        jsonschema.validate(panel["options"], schema(file, "Options"))
        custom = panel.get("fieldConfig", {}).get("defaults", {}).get("custom")
        if custom is not None:
            jsonschema.validate(custom, schema(file, "FieldConfig"))


@every_board
def test_a_board_survives_the_types_of_grafana(name: str) -> None:
    board = typed(BOARDS[name])
    read = Dashboard.from_json(board)
    assert json.loads(json.dumps(read, cls=JSONEncoder)) == board


@every_board
def test_a_board_has_a_stable_name_and_cannot_be_edited(name: str) -> None:
    board = BOARDS[name]
    assert board["uid"] == f"asyncrl-{name}"
    assert len(board["uid"]) <= LONGEST_UID
    assert (board["editable"], board["graphTooltip"], board.get("id")) == (False, 1, None)
    assert board["description"]
    assert board["schemaVersion"] >= 41
    assert (GENERATED / f"{name}.json").stat().st_size < LARGEST_BYTES


def test_titles_of_boards_differ() -> None:
    assert len({board["title"] for board in BOARDS.values()}) == len(BOARDS)


@every_board
def test_ids_and_letters_are_unique_and_explicit(name: str) -> None:
    ids = [panel["id"] for panel in panels(BOARDS[name])]
    assert sorted(ids) == list(range(1, len(ids) + 1))
    for panel in shown(name):
        letters = [target["refId"] for target in panel["targets"]]
        assert letters == [chr(ord("A") + number) for number in range(len(letters))]


@every_board
def test_panels_fill_the_grid_without_touching(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARDS[name]["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= COLUMNS
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


@every_board
def test_every_panel_says_what_it_shows(name: str) -> None:
    for panel in shown(name):
        assert panel["type"] in PANEL_TYPES
        assert panel["title"], panel
        assert panel["fieldConfig"]["defaults"].get("unit"), panel["title"]
        about = panel["description"]
        assert about.endswith((".", "`")), panel["title"]
        assert len(about.split()) >= FEWEST_WORDS, panel["title"]
    names = [(panel["type"], panel["title"]) for panel in shown(name)]
    assert len(set(names)) == len(names), "two panels of a kind with one name"


@every_board
def test_no_threshold_is_a_default(name: str) -> None:
    """Green below 80 and red above is what Grafana writes where nobody thought of it."""
    steps = [step for thresholds in values_of(BOARDS[name]["panels"], "steps") for step in _steps(thresholds)]
    assert not [step for step in steps if step.get("value") == 80]


def _steps(thresholds: Any) -> list[dict[str, Any]]:
    return thresholds if isinstance(thresholds, list) else []


@every_board
def test_rates_are_over_the_rate_interval_only(name: str) -> None:
    for panel in shown(name):
        for target in panel["targets"]:
            ranges = set(re.findall(r"\[([^\]]*)\]", target["expr"]))
            assert ranges <= {"$__rate_interval", "$__range"}, panel["title"]
            by_function = set(re.findall(r"(\w+)\([^()]*\[\$__range\]", target["expr"]))
            assert by_function <= {"last_over_time"}, panel["title"]


@every_board
def test_variables_are_declared_where_they_are_used_and_used_where_they_are_declared(name: str) -> None:
    board = BOARDS[name]
    declared = {variable["name"] for variable in board["templating"]["list"]}
    text = json.dumps({key: value for key, value in board.items() if key != "templating"})
    used = {found for found in re.findall(r"\$\{?([a-z]\w*)", text) if not found.startswith("__")}
    assert declared == used
    assert {"datasource", "run"} <= declared


@every_board
def test_variables_offer_finished_runs_and_all(name: str) -> None:
    for variable in BOARDS[name]["templating"]["list"]:
        if variable["type"] != "query":
            continue
        assert variable["refresh"] == 2, "asked for with every time range"
        assert variable["includeAll"], variable["name"]
        assert variable["multi"], variable["name"]
        assert variable["allValue"] == (".+" if variable["name"] == "run" else ".*")
        assert variable["query"]["refId"]
        assert variable["name"] == "run" or 'run=~"$run"' in variable["query"]["query"]


@every_board
def test_every_link_to_a_board_leads_to_one_with_the_runs_chosen(name: str) -> None:
    board = BOARDS[name]
    assert [link["tags"] for link in board["links"]] == [["asyncrl"]]
    assert "asyncrl" in board["tags"]
    assert all(link["includeVars"] and link["keepTime"] for link in board["links"])
    urls = [url for url in values_of(board["panels"], "url") if url.startswith("/d/")]
    for url in urls:
        assert url.split("?")[0].removeprefix("/d/asyncrl-") in NAMES, url
        assert "run" in url
        assert "${datasource:queryparam}" in url
        assert "${__url_time_range}" in url


@every_board
def test_marks_are_exact_or_span_what_they_mark(name: str) -> None:
    marks = {mark["name"]: mark for mark in BOARDS[name]["annotations"]["list"]}
    assert set(marks) == {"Alerts", "Starts", "Checkpoints", "Validations", "Versions"}
    for mark in marks.values():
        assert mark["datasource"] == PROMETHEUS
        assert mark["target"]["expr"] == mark["expr"]
        exact = mark["name"] != "Alerts"
        assert mark["useValueForTime"] is exact
        assert mark["expr"].endswith("* 1000") is exact, "Grafana counts in milliseconds"


def test_a_version_leads_to_its_traces_and_to_its_record() -> None:
    urls = "\n".join(values_of(BOARDS["versions"]["panels"], "url"))
    assert "resource.rl.run.id" in urls
    assert "asyncrl.param_version" in urls
    assert "/api/v1/runs/" in urls


def test_an_alert_leads_to_its_runbook() -> None:
    urls = list(values_of(BOARDS["overview"]["panels"], "url"))
    assert any(url.endswith("docs/runbooks/${__value.raw}.md") for url in urls)


def test_a_run_of_any_name_leads_to_its_board() -> None:
    """A space or an ampersand in the name of a run stays within the address."""
    for board in BOARDS.values():
        for url in values_of(board["panels"], "url"):
            if "/d/" in url and "${__value" in url:
                assert "var-run=${__value.raw:percentencode}" in url
