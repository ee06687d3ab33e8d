"""Every expression of boards and rules: it parses, asks for the chosen runs only, and treats a family as what it is."""

import re
import subprocess
from pathlib import Path
from typing import Final

import promql_parser
import pytest
import yaml

from dashboards import dcgm
from dashboards.promql import HOME_LABELS, REPLICA_LABELS, REPORTED
from exporter import catalog
from exporter.catalog import PREFIX, Family
from tests.dashboards.board_files import (
    ALL,
    BOARDS,
    EMPTY,
    ONE,
    RULES,
    SEVERAL,
    distinct,
    expressions,
    family_of,
    grouping_labels,
    selected,
)
from tests.prometheus import require_binary

OF_COUNTERS: Final = {"rate", "increase", "resets", "irate"}
PROMETHEUS_OWN: Final = {"ALERTS", "ALERTS_FOR_STATE", "up", "scrape_duration_seconds"}
"""What Prometheus itself says, of alerts and of scrapes."""

DCGM: Final = [family for family in vars(dcgm).values() if isinstance(family, Family)]

OFF_THE_BOARDS: Final = {
    r"_(min|std)(_|$)": "beyond mean and maximum, the spread of a distribution is in the heatmaps and in the history",
    r"^asyncrl_version_.*(reward|response_length)_max": "of the version window the same: means are compared",
    r"^asyncrl_version_weight_sync_max": "a version has one weight sync, whose mean it is",
}
"""Families that are on no board, by what their names look like, and why."""

CUMULATIVE: Final = {catalog.VERSIONS_SEALED.name, catalog.JOURNAL_TORN.name}
"""Counters whose total is what is asked for: versions since the run began, and what was found at the start."""


@pytest.mark.parametrize("variables", [EMPTY, ONE, SEVERAL, ALL], ids=["none", "one", "several", "all"])
def test_every_expression_parses_with_any_choice_of_variables(
    variables: dict[str, str], tmp_path: Path
) -> None:
    texts = [expression.given(variables) for expression in distinct(expressions())]
    for text in texts:
        assert "$" not in text
        promql_parser.parse(text)
    rules = [{"record": f"checked:{number}", "expr": text} for number, text in enumerate(texts)]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "boards", "rules": rules}]}), encoding="utf-8")
    check = subprocess.run(
        [require_binary("promtool"), "check", "rules", path],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert check.returncode == 0, check.stdout + check.stderr


def test_every_selector_of_a_board_is_of_the_chosen_runs() -> None:
    """C61: without it a panel would add up runs. What has no label `run` is of the exporter, or of a GPU."""
    for expression in distinct(expressions()):
        for one in selected(expression.given(dict.fromkeys(ALL, "CHOSEN"))):
            family = family_of(one.name)
            if family is None:
                assert one.name in PROMETHEUS_OWN or one.name.startswith("DCGM_"), expression
                continue
            for label in ("run", "rollouter", "attempt"):
                chosen = one.label(label)
                assert (chosen == "CHOSEN") is (label in family.labels), (expression, one.name, label)


def test_counters_are_shown_as_rates_and_gauges_never() -> None:
    for expression in distinct(expressions()):
        for one in selected(expression.given(ALL)):
            family = family_of(one.name)
            if family is None:
                continue
            rated = bool(one.inside) and one.inside[0] in OF_COUNTERS
            counts = family.kind in ("counter", "histogram")
            if counts and not rated:
                assert one.name in CUMULATIVE, (expression, one.name)
            assert counts or not rated, (expression, one.name)


def test_where_a_foreign_trainer_may_report_its_own_value_that_is_shown() -> None:
    """Of every gauge of a version, the newest one and those of the version window."""
    windows = {family.name: f"{PREFIX}version_" for family in catalog.VERSIONED.values()}
    windows |= dict.fromkeys(catalog.VERSIONED, PREFIX)
    for expression in distinct(expressions()):
        names = {one.name for one in selected(expression.given(ALL))}
        for name in names & windows.keys():
            window = windows[name]
            assert f"{window}{REPORTED}{name.removeprefix(window)}" in names, (expression, name)


def test_replicas_of_the_exporter_are_reduced_before_anything_is_added() -> None:
    """Two exporters publish one run, and it counts once."""
    for expression in distinct(expressions()):
        text = expression.given(ALL)
        names = {one.name for one in selected(text) if family_of(one.name) is not None}
        if not any("run" in (family_of(name) or catalog.BUILD_INFO).labels for name in names):
            continue
        reduced = re.search(r"max without \(" + ", ".join(REPLICA_LABELS), text) or "max by (" in text
        assert reduced, expression


def test_every_name_is_in_the_catalogue_and_every_label_is_of_its_family() -> None:
    """C62, the half that needs no page."""
    recorded = {rule["record"] for rule in RULES if "record" in rule}
    dcgm_names = {family.name for family in DCGM}
    texts = [(expression.where, expression.given(ALL)) for expression in distinct(expressions())]
    texts += [(str(rule.get("alert", rule.get("record"))), rule["expr"]) for rule in RULES]
    for where, text in texts:
        known = {*REPLICA_LABELS, *HOME_LABELS, "le"}
        for one in selected(text):
            family = family_of(one.name)
            known |= set(family.labels if family else {label for label, _, _ in one.matchers})
            if family is None:
                assert one.name in recorded | dcgm_names | PROMETHEUS_OWN, (where, one.name)
                known |= {"run", "rollouter", "alertname", "severity", "threshold", *dcgm_labels()}
                continue
            parts = {"le"} if family.kind == "histogram" else set()
            asked = {label for label, _, _ in one.matchers} - {"__name__"}
            assert asked <= {*family.labels, *parts, "job", "instance"}, (where, one.name, asked)
        assert grouping_labels(text) <= known, (where, grouping_labels(text) - known)


def dcgm_labels() -> set[str]:
    return {label for family in DCGM for label in family.labels}


def test_every_family_of_the_catalogue_is_on_the_board_it_names_or_has_a_reason() -> None:
    on: dict[str, set[str]] = {}
    for board in BOARDS:
        for expression in expressions(board):
            for one in selected(expression.given(ALL)):
                family = family_of(one.name)
                if family is not None:
                    on.setdefault(family.name, set()).add(board)
    missing = {family.name for family in catalog.FAMILIES if family.board not in on.get(family.name, ())}
    excused = {pattern: {name for name in missing if re.search(pattern, name)} for pattern in OFF_THE_BOARDS}
    assert missing == set().union(*excused.values())
    assert all(excused.values()), "a reason that nothing needs"
