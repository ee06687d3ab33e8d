"""A runbook for every alert, in one form, whose queries, boards, panels, thresholds and links there are."""

import itertools
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from dashboards import dcgm
from dashboards.alerts import ALERTS
from dashboards.promql import REPORTED
from dashboards.recording import RECORDINGS
from dashboards.runbooks import INDEX
from dashboards.thresholds import THRESHOLDS
from exporter import catalog
from tests.dashboards.board_files import BOARDS, Selected, family_of, panels, selected
from tests.prometheus import WATCHDOG_SECONDS, require_binary

FOLDER = INDEX.parent
HEADINGS = ["Meaning", "Impact", "Diagnosis", "Mitigation"]
SHORTEST_LINES, LONGEST_LINES = 25, 45

GPU_FAMILIES = {family.name: family for family in vars(dcgm).values() if isinstance(family, catalog.Family)}
OF_OTHERS = re.compile(r"up|ALERTS|(process|prometheus|alertmanager)_\w+")
"""Families of Prometheus, Alertmanager and the Python client."""
OWN = {
    *(family.name + suffix for family in catalog.FAMILIES for suffix in ("", "_bucket")),
    *(family.name.replace("asyncrl_", f"asyncrl_{REPORTED}") for family in catalog.FAMILIES),
    *(recording.record for recording in RECORDINGS),
    *(threshold.record for threshold in THRESHOLDS.values()),
    *GPU_FAMILIES,
}
REPLICAS = ('job="asyncrl",instance="a:9810"', 'job="asyncrl",instance="b:9810"')
"""Two exporters that publish the same runs."""


def runbook(alert: str) -> str:
    return (FOLDER / f"{alert}.md").read_text(encoding="utf-8")


def queries(text: str) -> list[str]:
    return [
        line for block in re.findall(r"```promql\n(.+?)```", text, re.DOTALL) for line in block.splitlines()
    ]


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.md") if path != INDEX) == sorted(ALERTS)


@pytest.mark.parametrize("alert", ALERTS)
def test_runbooks_have_one_form(alert: str) -> None:
    text = runbook(alert)
    assert text.startswith(f"# {alert}\n")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS
    assert all(len(section.split()) > 10 for section in re.split(r"^## .+$", text, flags=re.MULTILINE)[1:])
    assert SHORTEST_LINES <= text.count("\n") <= LONGEST_LINES
    mitigation = text.split("## Mitigation")[1]
    assert mitigation.count("\n- ") >= 3


@pytest.mark.parametrize("alert", ALERTS)
def test_queries_of_runbooks_can_be_typed_as_they_are(alert: str) -> None:
    found = queries(runbook(alert))
    assert found
    for query in found:
        names = {one.name for one in selected(query)}
        assert names
        unknown = {name for name in names if name not in OWN and not OF_OTHERS.fullmatch(name)}
        assert unknown == set(), query


@pytest.mark.parametrize("alert", ALERTS)
def test_boards_and_panels_that_runbooks_name_are_there(alert: str) -> None:
    diagnosis = runbook(alert).split("## Diagnosis")[1].split("```")[0]
    boards = {
        name.capitalize(): {re.sub(r" \(.*", "", panel["title"]) for panel in panels(board)}
        for name, board in BOARDS.items()
    }
    named = re.findall(r"\b[Bb]oard \*\*(\w+)\*\*", diagnosis)
    assert set(named) <= boards.keys()
    assert named or alert == "AsyncRLWatchdog"
    sentence = diagnosis.split("\n\n- ")[0]
    titles = {" ".join(title.split()) for title in re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", sentence)}
    there = set().union(*(boards[board] for board in named)) | {"complete"}
    assert titles <= there or alert == "AsyncRLWatchdog"


def test_thresholds_and_links_of_runbooks_are_there() -> None:
    for path in FOLDER.glob("*.md"):
        text = path.read_text(encoding="utf-8")
        assert set(re.findall(r"asyncrl:threshold:(\w+)", text)) <= THRESHOLDS.keys(), path
        assert all(name in ALERTS for name in re.findall(r"\bAsyncRL\w+", text)), path
        for link in re.findall(r"\]\(([^)#]+)\)", text):
            assert (FOLDER / link).is_file() or link.startswith("https://"), (path, link)


def test_queries_of_runbooks_have_an_answer_where_two_exporters_publish_a_run(tmp_path: Path) -> None:
    """Two series of one run for one partner are an error of PromQL, which comes whatever the values are."""
    texts = sorted({query for alert in ALERTS for query in queries(runbook(alert))})
    series = sorted({one for text in texts for each in selected(text) for one in of_replicas(each)})
    tests: list[dict[str, Any]] = [
        {
            "interval": "1m",
            "input_series": [{"series": one, "values": "1+1x90"} for one in series],
            "promql_expr_test": [
                {
                    "expr": f"clamp_max(count({text}) or vector(1), 1)",
                    "eval_time": "90m",
                    "exp_samples": [{"labels": "{}", "value": 1}],
                }
                for text in texts
            ],
        }
    ]
    path = tmp_path / "test.yaml"
    path.write_text(yaml.safe_dump({"rule_files": [], "tests": tests}, width=10_000), encoding="utf-8")
    command: list[str | Path] = [require_binary("promtool"), "test", "rules", path]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=WATCHDOG_SECONDS, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def of_replicas(one: Selected) -> list[str]:
    """What two exporters publish for a selector: each of its labels with the values asked for, or else with two."""
    if one.name.startswith("asyncrl:threshold:"):
        return [f'{one.name}{{threshold="{one.name.rpartition(":")[2]}"}}']
    if one.name in {recording.record for recording in RECORDINGS}:
        return [f'{one.name}{{job="asyncrl",run="r"}}']
    family = family_of(one.name) or GPU_FAMILIES.get(one.name)
    labels = [*(family.labels if family else ()), *(["le"] if one.name.endswith("_bucket") else [])]
    asked = {label: value.split("|") for label, operator, value in one.matchers if operator in ("=", "=~")}
    values = {"run": ["r"], "le": ["1", "+Inf"]} | asked
    choices = [[f'{label}="{value}"' for value in values.get(label, ["0", "1"])] for label in labels]
    return [
        f"{one.name}{{{','.join((*chosen, replica))}}}"
        for chosen in itertools.product(*choices)
        for replica in REPLICAS
    ]
