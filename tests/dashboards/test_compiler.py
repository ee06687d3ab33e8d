"""From YAML to JSON: the same every time, checked by `python -m dashboards --check`, with mistakes told in one line."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from grafana_dashboards.components.base import ComponentRegistry
from hypothesis import given
from hypothesis import strategies as st

from dashboards import compiler
from dashboards.components import Stat, Table, Timeseries
from dashboards.errors import DashboardError
from dashboards.layout import COLUMNS, laid_out
from dashboards.units import grafana_unit
from exporter import catalog

ROOT = Path(__file__).parents[2]


def compile_boards(*arguments: str, cwd: Path = ROOT, seed: str = "0") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dashboards", *arguments],
        cwd=cwd,
        env=os.environ | {"PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what boards are made of, and of where they are written."""
    folder = tmp_path_factory.mktemp("tree")
    for room in ("dashboards", "exporter", "runtime", "docs/runbooks"):
        shutil.copytree(ROOT / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def written(tree: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (tree / "dashboards" / "generated").iterdir()}


def test_what_is_committed_is_what_the_sources_say() -> None:
    check = compile_boards("--check")
    assert (check.returncode, check.stdout, check.stderr) == (0, "", "")


def test_the_same_sources_give_the_same_bytes(tree: Path) -> None:
    committed = written(ROOT)
    shutil.rmtree(tree / "dashboards" / "generated")
    made = compile_boards(cwd=tree, seed="1")
    assert made.returncode == 0, made.stderr
    assert written(tree) == committed


def test_a_stale_a_missing_and_a_foreign_file_fail_the_check_in_one_line(tree: Path) -> None:
    generated = tree / "dashboards" / "generated"
    (generated / "overview.json").write_text("{}", encoding="utf-8")
    (generated / "versions.json").unlink()
    (generated / "mine.json").write_text("{}", encoding="utf-8")
    check = compile_boards("--check", cwd=tree)
    assert check.returncode == 1
    (line,) = check.stderr.splitlines()
    assert "mine.json, overview.json, versions.json" in line
    assert "make generate" in line
    assert (generated / "mine.json").exists(), "a check writes nothing"
    assert compile_boards(cwd=tree).returncode == 0
    assert written(tree) == written(ROOT)


def test_a_mistake_in_a_board_is_one_line_and_exit_code_2(tree: Path) -> None:
    board = tree / "dashboards" / "boards" / "overview.yaml"
    text = board.read_text(encoding="utf-8")
    try:
        board.write_text(text.replace("[overview.status]", "[overview.no_such_query]"), encoding="utf-8")
        made = compile_boards(cwd=tree)
    finally:
        board.write_text(text, encoding="utf-8")
    assert made.returncode == 2
    (line,) = made.stderr.splitlines()
    assert "overview.no_such_query" in line
    assert "Status" in line


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("    title: Async RL / Overview\n", "", "BoardOptions of ''.*title"),
        ("[source, run, rollouter]", "[source, walk]", "'overview'.*walk"),
        ("            - stat:", "            - speedometer:", "'overview'.*speedometer"),
        ("          title: Runs\n", "          titel: Runs\n", "RowOptions.*titel"),
        ("  board:", "  board: }", "overview.yaml: .*expected"),
        ("- name: overview", "- name: versions", "versions"),
    ],
    ids=["no title", "variable", "panel", "row", "yaml", "name"],
)
def test_a_mistake_says_where_it_is(
    before: str, after: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in compiler.SOURCES.glob("*.yaml"):
        text = path.read_text(encoding="utf-8")
        if path.stem == "overview":
            assert before in text
            text = text.replace(before, after, 1)
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(compiler, "SOURCES", tmp_path)
    monkeypatch.setattr(compiler, "SHARED", tmp_path / "shared.yaml")
    with pytest.raises(DashboardError, match=words) as raised:
        compiler.boards()
    assert len(str(raised.value).splitlines()) == 1


def made(kind: type, **options: Any) -> dict[str, Any]:
    """The JSON of one panel."""
    data = {"title": "A panel", "about": "Of a test.", "queries": ["overview.version"]} | options
    json: dict[str, Any] = kind({kind.__name__.lower(): data}, ComponentRegistry()).gen_json()
    return json


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"queries": ["overview.nothing"]}, "overview.nothing"),
        ({"queries": []}, "no query"),
        ({"family": "asyncrl_nothing"}, "asyncrl_nothing"),
        ({"states": "nothing"}, "nothing"),
        ({"above": "nothing"}, "nothing"),
        ({"colour": "blue"}, "colour"),
        ({"width": "wide"}, "int"),
    ],
    ids=["query", "no query", "family", "states", "threshold", "option", "type"],
)
def test_a_panel_names_what_it_does_not_know(options: dict[str, Any], words: str) -> None:
    with pytest.raises(DashboardError, match=words):
        made(Stat, **options)


def test_a_column_is_of_a_query_of_its_table() -> None:
    with pytest.raises(DashboardError, match="Reward"):
        made(Table, columns=[{"title": "Reward", "query": "overview.reward"}])


def test_unit_range_and_description_follow_from_the_family() -> None:
    family = catalog.TRAINER_IDLE
    panel = made(Timeseries, family=family.name, queries=["overview.trainer_idle"])
    defaults = panel["fieldConfig"]["defaults"]
    assert (defaults["unit"], defaults["min"], defaults["max"]) == ("percentunit", 0, 1)
    assert panel["description"].startswith(f"{family.help}.\n\nOf a test.")
    assert f"`{family.name}`" in panel["description"]
    assert "foreign trainer" in panel["description"]


@pytest.mark.parametrize(
    ("family", "unit"),
    [
        (catalog.TRAINER_IDLE, "percentunit"),
        (catalog.TRAINER_VERSION, "s"),
        (catalog.TRAINER_STATE_SECONDS, "s"),
        (catalog.JOURNAL_BYTES, "bytes"),
        (catalog.PARAM_VERSION, "none"),
        (catalog.RUN_ATTEMPT, "none"),
        (catalog.metric_family("staleness", "max"), "none"),
        (catalog.metric_family("tokens_per_second"), "short"),
        (catalog.SAMPLES, "short"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_a_family_s_name_ends_in_its_unit(family: catalog.Family, unit: str) -> None:
    assert grafana_unit(family) == unit


def test_a_time_is_no_number_of_seconds_to_show() -> None:
    with pytest.raises(DashboardError, match="age"):
        made(Stat, family=catalog.LAST_VERSION.name)
    assert made(Stat, family=catalog.LAST_VERSION.name, unit="s")["fieldConfig"]["defaults"]["unit"] == "s"


def test_a_panel_without_reported_values_does_not_speak_of_them() -> None:
    assert "foreign" not in made(Stat, family=catalog.PARAM_VERSION.name)["description"]


def test_thresholds_are_those_of_the_alerts() -> None:
    above = made(Stat, above="trainer_wait_ratio")["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert [(step["value"], step["color"]) for step in above] == [(None, "green"), (0.5, "red")]
    both = made(Stat, below="importance_ratio_low", above="importance_ratio_high")
    steps = both["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert [(step["value"], step["color"]) for step in steps] == [(None, "red"), (0.5, "green"), (2, "red")]
    below = made(Stat, below=0)["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert [(step["value"], step["color"]) for step in below] == [(None, "red"), (0, "green")]


def panel(width: int, height: int) -> dict[str, Any]:
    return {"type": "stat", "gridPos": {"w": width, "h": height}, "targets": [{}, {}]}


def row(*inside: dict[str, Any]) -> dict[str, Any]:
    return {"type": "row", "panels": list(inside)}


def places(panels: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]


def test_panels_flow_from_left_to_right_and_wrap() -> None:
    placed = laid_out([panel(12, 8), panel(8, 4), panel(8, 4), row(), panel(24, 3), panel(6, 1)])
    assert places(placed) == [(0, 0), (12, 0), (0, 8), (0, 12), (0, 13), (0, 16)]
    assert [panel["id"] for panel in placed] == [1, 2, 3, 4, 5, 6]
    assert [target["refId"] for target in placed[0]["targets"]] == ["A", "B"]


@given(sizes=st.lists(st.tuples(st.integers(1, COLUMNS), st.integers(1, 12)), min_size=1, max_size=30))
def test_no_panel_lies_over_another_or_past_the_edge(sizes: list[tuple[int, int]]) -> None:
    placed = laid_out([panel(width, height) for width, height in sizes])
    taken: set[tuple[int, int]] = set()
    for (width, height), (x, y) in zip(sizes, places(placed), strict=True):
        cells = {(x + across, y + down) for across in range(width) for down in range(height)}
        assert x + width <= COLUMNS
        assert not cells & taken
        taken |= cells
    assert places(placed) == sorted(places(placed), key=lambda place: (place[1], place[0]))


def test_what_lies_in_a_collapsed_row_takes_no_space() -> None:
    placed = laid_out([panel(24, 2), row(panel(12, 8), panel(12, 8)), panel(6, 1)])
    assert places(placed) == [(0, 0), (0, 2), (0, 3)]
    assert places(placed[1]["panels"]) == [(0, 3), (12, 3)]
    assert [placed[1]["id"], *(inner["id"] for inner in placed[1]["panels"]), placed[2]["id"]] == [2, 3, 4, 5]
