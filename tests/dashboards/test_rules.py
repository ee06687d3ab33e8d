"""The rule file as a whole: what it may name, what a divisor changes, what an alert says and where it sends one."""

import re
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import promql_parser
import yaml

from dashboards import durations
from dashboards.alert import RUNBOOKS
from dashboards.alerts import ALERTS
from dashboards.inhibition import INHIBITIONS, inhibition_yaml
from dashboards.promql import HOME_LABELS, REPLICA_LABELS
from dashboards.recording import RECORDINGS
from dashboards.rules import rules, rules_yaml
from dashboards.thresholds import THRESHOLDS
from exporter import catalog
from tests.dashboards.alert_cases import CASES
from tests.dashboards.alert_scenarios import ALERTING, CaseScenarios, labelled, needs
from tests.dashboards.board_files import BOARDS, selected
from tests.dashboards.healthy_run import always, series
from tests.dashboards.promtool import Suite, said_by_alerts
from tests.prometheus import require_binary

RUNBOOK_PAGES = Path(__file__).parents[2] / "docs" / "runbooks"
LEAST_ALERTS = 35
HEADINGS = ["Meaning", "Impact", "Diagnosis", "Mitigation"]
SHORTENED = 60
DURATION = re.compile(r"(?<=\[)\w+(?=:?\])|(?<=offset )\w+|^\d+(?:ms|[smhd])$")

LABEL_VALUES = {
    "state": {*catalog.TRAINER_STATES, *catalog.ROLLOUTER_STATES},
    "status": {*catalog.RUN_STATUSES, "503"},
    "outcome": set(catalog.OUTCOMES),
    "reason": {*catalog.LATE_REASONS, *catalog.REJECT_REASONS, *catalog.INCOMPLETE_REASONS},
}
AT_ONCE = {("AsyncRLExporterDown", catalog.BUILD_INFO.name)}
"""An exporter that answers is up, however many scrapes failed before."""

WITHIN_AN_EXPORTER = {
    "AsyncRLJournalUnavailable",
    "AsyncRLReplicaJournalUnavailable",
    "AsyncRLSampleAccountBroken",
}
"""They add up what one exporter says, and are reduced to one at last, or name it."""
OF_THE_RULES = "AsyncRLThresholdInvalid"
"""Of the rules themselves: it counts them, and has a test of its own."""

KEPT_LONGER = {
    "AsyncRLRewardCollapsed": "it keeps others quiet itself, which go on when the collapse has become usual",
    "AsyncRLTelemetryDropped": "what an outage of the journal cost, and news when that is over",
    "AsyncRLRollouterSilent": "it does not begin beside a silent trainer, and a run that failed stands on the page"
    " for a quarter of an hour besides",
}
"""Consequences that go on firing for longer than what keeps them quiet, and why that tells of nothing late."""

LISTING = [name for name, alert in ALERTS.items() if "| query" in alert.description]
"""What they say has the result of a query in it."""

FIRING = {case.alert: CaseScenarios(case) for case in CASES}
"""A case of each alert."""


def test_promtool_finds_nothing_wrong_with_the_rules(tmp_path: Path) -> None:
    for divisor in (1, SHORTENED):
        path = tmp_path / f"{divisor}.yaml"
        path.write_text(rules_yaml(divisor), encoding="utf-8")
        check = subprocess.run(
            [require_binary("promtool"), "check", "rules", "--lint=all", "--lint-fatal", path],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert check.returncode == 0, check.stdout + check.stderr


def test_alerts_are_many_named_alike_and_complete() -> None:
    assert len(ALERTS) >= LEAST_ALERTS
    assert Counter(name for name in ALERTS) == Counter(rule["alert"] for rule in ALERTING.values())
    for alert in ALERTS.values():
        assert re.fullmatch(r"AsyncRL([A-Z][a-z]+|KL|GPU)+", alert.name)
        assert alert.summary
        assert not alert.summary.endswith(".")
        assert alert.description.endswith((".", "{{ end }}"))
        assert alert.severity == "none" or "for" in ALERTING[alert.name] or _is_of_events(alert.expr)


def _is_of_events(expression: str) -> bool:
    """What happens once cannot last; its window says how long it is news."""
    return any(
        sign in expression for sign in ("event_seconds", "increase(", "changes(", "status=", "max_over_time")
    )


def test_thresholds_and_durations_are_all_in_use() -> None:
    texts = " ".join(rule["expr"] for rule in ALERTING.values()) + " ".join(one.expr for one in RECORDINGS)
    assert [name for name, one in THRESHOLDS.items() if one.record not in texts] == []
    expressions = [alert.expr for alert in ALERTS.values()] + [one.expr for one in RECORDINGS]
    used = {name for text in expressions for name in re.findall(r"\$(\w+)", text)}
    used |= {name for alert in ALERTS.values() for name in (alert.hold, alert.keep)}
    used |= {one.value for one in THRESHOLDS.values() if isinstance(one.value, str)}
    assert set(durations.DURATIONS) - used == {"evaluation"}


def test_no_number_of_the_rules_stands_outside_the_tables() -> None:
    """In an expression only 0, 1, a half, a percentage, and what the alert's file gives a name."""
    named = {"0", "1", "2", "0.5", "0.95", "60", "1e9", "1000000000"}
    for alert in ALERTS.values():
        bare = re.sub(r'"[^"]*"|asyncrl[\w:]*|\w*_over_time', "", durations.fill(alert.expr))
        if alert.name not in {"AsyncRLGPUFailed", OF_THE_RULES}:
            found = set(re.findall(r"(?<![\w.\[])\d+(?:\.\d+)?(?:e\d+)?(?![\w.\]])", bare))
            assert found <= named, (alert.name, found - named)


def test_c69_ratios_are_compared_with_ratios() -> None:
    for one in THRESHOLDS.values():
        if one.name.endswith("_ratio"):
            assert 0 < one.number() < 1, one
            assert one.unit == "ratio"
        assert one.why
        assert one.help


def test_c69_every_value_of_a_label_exists() -> None:
    for name, rule in ALERTING.items():
        for one in selected(rule["expr"]):
            for label, values in LABEL_VALUES.items():
                asked = one.label(label)
                if asked is not None and asked != ".+":
                    assert set(asked.split("|")) <= values, (name, one)


def test_c65_no_rule_hangs_on_one_scrape() -> None:
    """A scrape that fails leaves a hole in every series: rules look back over some scrapes."""
    named = [(name, rule["expr"]) for name, rule in ALERTING.items()]
    named += [(one.record, durations.fill(one.expr)) for one in RECORDINGS]
    for name, text in named:
        for one in selected(text):
            recorded = one.name.startswith("asyncrl:")
            ranged = one.ranged or any(function.endswith("_over_time") for function in one.inside)
            assert ranged or recorded or (name, one.name) in AT_ONCE, (name, one.name)


def test_a_divisor_changes_durations_and_nothing_else() -> None:
    usual, short = (
        [
            (group["name"], group["interval"], rule)
            for group in rules(divisor)["groups"]
            for rule in group["rules"]
        ]
        for divisor in (1, SHORTENED)
    )
    waits = {one.record for one in THRESHOLDS.values() if isinstance(one.value, str)}
    for (group, interval, rule), (short_group, short_interval, short_rule) in zip(usual, short, strict=True):
        assert (group, _in_seconds(interval)) == (short_group, _in_seconds(short_interval, SHORTENED))
        assert rule.keys() == short_rule.keys()
        for key, value in rule.items():
            expected, got = _in_seconds(value), _in_seconds(short_rule[key], SHORTENED)
            if rule.get("record") in waits and key == "expr":
                number = float(value.removeprefix("vector(").removesuffix(")"))
                expected = f"vector({number / SHORTENED:.10g})"
            assert got == expected, rule


def _in_seconds(value: Any, factor: int = 1) -> Any:
    """The text in one line, with every duration in seconds times the factor."""
    if not isinstance(value, str):
        return value
    return DURATION.sub(
        lambda length: f"{factor * promql_parser.parse_duration(length[0]).total_seconds():g}s",
        " ".join(value.split()),
    )


def test_what_an_alert_says_names_the_run_and_has_no_hole(tmp_path: Path) -> None:
    """As promtool renders it, when the alert fires."""
    suites = [
        Suite(name=name, rules=one.rules, scenarios=[one.fires()], alert=name) for name, one in FIRING.items()
    ]
    for name, text in said_by_alerts(tmp_path, suites).items():
        said = dict(re.findall(r'(summary|description|runbook_url)="((?:[^"\\]|\\.)*)"', text))
        assert said.keys() == {"summary", "description", "runbook_url"}, text
        assert "no value" not in text, text
        assert "expanding template" not in text, text
        assert said["runbook_url"] == f"{RUNBOOKS}/{name}.md"
        if not FIRING[name].case.no_run:
            assert FIRING[name].fires().mark in said["summary"] + said["description"], text


def test_what_an_alert_lists_is_of_its_own_run_and_not_of_another_team_s(tmp_path: Path) -> None:
    """Both have a run of one name, under one job."""
    suites = []
    for name in LISTING:
        found = re.search(r"max by \((\w+)\) \((\w+)", ALERTS[name].description)
        assert found
        label, counter = found.groups()
        fires = FIRING[name].fires()
        of_run = {"job": fires.mark, "run": fires.mark}
        scenario = replace(
            fires,
            series={labelled(one, namespace="ours"): values for one, values in fires.series.items()}
            | {
                series(counter, **of_run, namespace="ours", **{label: "own"}): always(3),
                series(counter, **of_run, namespace="theirs", **{label: "foreign"}): always(777),
            },
        )
        suites.append(Suite(name=name, rules=FIRING[name].rules, scenarios=[scenario], alert=name))
    for name, text in said_by_alerts(tmp_path, suites).items():
        assert re.findall(r"So far: (.+?;)\"", text) == ["own 3;"], name


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    pages = {path.stem: path.read_text(encoding="utf-8") for path in RUNBOOK_PAGES.glob("AsyncRL*.md")}
    assert sorted(pages) == sorted(ALERTS)
    for alert, page in pages.items():
        assert page.startswith(f"# {alert}\n")
        assert re.findall(r"^## (.+)$", page, re.MULTILINE) == HEADINGS, alert


def test_amtool_accepts_the_inhibition(tmp_path: Path) -> None:
    config = {
        "route": {"receiver": "nobody"},
        "receivers": [{"name": "nobody"}],
        **yaml.safe_load(inhibition_yaml()),
    }
    path = tmp_path / "alertmanager.yml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    check = subprocess.run(
        [require_binary("amtool"), "check-config", path],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert check.returncode == 0, check.stdout + check.stderr


def test_an_alert_is_kept_quiet_only_by_one_that_is_as_loud_and_of_the_same_run() -> None:
    loudness = {"info": 0, "warning": 1, "critical": 2}
    for one in INHIBITIONS:
        for consequence in one.consequences:
            assert consequence not in one.causes
            loudest = max(loudness[ALERTS[cause].severity] for cause in one.causes)
            assert loudest >= loudness[ALERTS[consequence].severity], (one.causes, consequence)
        for name in (*one.causes, *one.consequences):
            labels = next(filter(None, FIRING[name].fires().firing.values()))[0]
            assert set(one.equal) - set(HOME_LABELS[:-1]) <= labels.keys(), (name, one.equal)


def test_nothing_is_told_because_its_cause_is_over() -> None:
    """What a cause keeps quiet goes on firing no longer than the cause does."""

    def kept(name: str) -> float:
        return durations.seconds(ALERTS[name].keep) if ALERTS[name].keep else 0

    longer = {
        consequence
        for one in INHIBITIONS
        for cause in one.causes
        for consequence in one.consequences
        if kept(consequence) > kept(cause)
    }
    assert longer == KEPT_LONGER.keys()


def test_recordings_are_used_by_alerts_or_boards() -> None:
    used = {record for rule in ALERTING.values() for record in needs(rule["expr"])}
    boards = " ".join(str(board) for board in BOARDS.values())
    assert [one.record for one in RECORDINGS if one.record not in used and one.record not in boards] == []


def test_no_rule_adds_up_exporters() -> None:
    """Whatever is added up or averaged was reduced to one exporter before."""
    reduced = f"without ({', '.join(REPLICA_LABELS)}"
    apart = {*WITHIN_AN_EXPORTER, OF_THE_RULES}
    for name, rule in ALERTING.items():
        for found in re.finditer(r"\b(sum|avg|count|quantile)\b (?:without|by) \([^)]*\)", rule["expr"]):
            inside = rule["expr"][found.end() :]
            assert reduced in inside or reduced in found[0] or name in apart, (name, found[0])
