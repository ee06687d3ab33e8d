"""Rules that are wrong in one place are found out: by the cases of the alert, or of one that is made of it."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.dashboards.alert_cases import CASES
from tests.dashboards.alert_scenarios import ALERTING, RECORDED, CaseScenarios, needs, rules_for
from tests.dashboards.mutants import mutants, plain_mutants
from tests.dashboards.promtool import Suite, run_suites

CASES_OF: dict[str, list[CaseScenarios]] = defaultdict(list)
for case in CASES:
    CASES_OF[case.alert].append(CaseScenarios(case))


def survivors(directory: Path, suites: Mapping[str, Sequence[Suite]]) -> list[str]:
    """The mutants of which no suite complains."""
    complaints = run_suites(directory, [suite for of_mutant in suites.values() for suite in of_mutant])
    return [
        mutant
        for mutant, of_mutant in suites.items()
        if not any(complaints[suite.name] for suite in of_mutant)
    ]


def suites_of(number: int, alert: str, rules: Mapping[str, Any]) -> list[Suite]:
    return [
        Suite(name=f"{alert}-{number}-{which}", rules=rules, scenarios=scenarios.all(), alert=alert)
        for which, scenarios in enumerate(CASES_OF[alert])
    ]


def test_a_mutant_of_every_alert_is_found_out(tmp_path: Path) -> None:
    """One of each, another kind of mistake from alert to alert."""
    suites: dict[str, list[Suite]] = {}
    for number, (alert, cases) in enumerate(CASES_OF.items()):
        wrong = list(plain_mutants(ALERTING[alert]))
        what, rule = wrong[number % len(wrong)]
        rules = rules_for(rule)
        suites[f"{alert}, {what}"] = [
            Suite(name=f"{alert}-{which}", rules=rules, scenarios=scenarios.telling(), alert=alert)
            for which, scenarios in enumerate(cases)
        ]
    assert survivors(tmp_path, suites) == []


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_every_mutant_of_every_alert_is_found_out(tmp_path: Path) -> None:
    suites = {
        f"{alert}, {what}": suites_of(number, alert, rules_for(rule))
        for alert in CASES_OF
        for number, (what, rule) in enumerate(mutants(ALERTING[alert]))
    }
    assert survivors(tmp_path, suites) == []


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_every_mutant_of_a_recording_is_found_out(tmp_path: Path) -> None:
    """By the alerts that are made of it; three of them are enough."""
    suites: dict[str, list[Suite]] = defaultdict(list)
    for record, wrong in recording_mutants():
        users = [alert for alert in CASES_OF if record in needs(ALERTING[alert]["expr"])][:3]
        for number, (what, rule) in enumerate(wrong):
            for alert in users:
                rules = rules_for(ALERTING[alert], {**RECORDED, record: rule})
                named = f"{record.replace(':', '_')}-{number}"
                suites[f"{record}, {what}"] += [
                    Suite(name=f"{named}-{suite.name}", rules=rules, scenarios=suite.scenarios, alert=alert)
                    for suite in suites_of(0, alert, rules)
                ]
    assert survivors(tmp_path, suites) == []


def recording_mutants() -> Iterator[tuple[str, list[tuple[str, Mapping[str, Any]]]]]:
    for record, rule in RECORDED.items():
        if not record.startswith("asyncrl:threshold:"):
            yield record, list(mutants(rule))
