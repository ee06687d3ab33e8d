"""Rules that are wrong in one place are found out: by the cases of the alert, or of one that is made of it."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.dashboards.alert_cases import CASES
from tests.dashboards.alert_scenarios import ALERTING, RECORDED, CaseScenarios, needs, rules_for
from tests.dashboards.mutants import mutants, plain_mutants
from tests.dashboards.promtool import Scenario, Suite, run_suites

Kind = Callable[[CaseScenarios], Iterable[Scenario]]
LONG_SECONDS = 1800
FEW = 4

CASES_OF: dict[str, list[CaseScenarios]] = defaultdict(list)
for case in CASES:
    CASES_OF[case.alert].append(CaseScenarios(case))


def survivors(directory: Path, wrong: Mapping[str, Mapping[str, Any]], *kinds: Kind) -> list[str]:
    """The mutants that no scenario of these kinds finds out; each kind is put to those that are left. `wrong` says
    what is wrong, and has by alert the rule file with it; any of the alerts may find it out."""
    left = dict(wrong)
    for kind in kinds:
        suites = {
            f"{number}-{alert}-{which}": Suite(
                name=f"{number}-{alert}-{which}", rules=rules, scenarios=list(kind(scenarios)), alert=alert
            )
            for number, of_mutant in enumerate(left.values())
            for alert, rules in of_mutant.items()
            for which, scenarios in enumerate(CASES_OF[alert])
        }
        complaints = run_suites(directory, list(suites.values()), watchdog_seconds=LONG_SECONDS)
        found_out = {int(name.split("-")[0]) for name, complaint in complaints.items() if complaint}
        left = {
            mutant: rules for number, (mutant, rules) in enumerate(left.items()) if number not in found_out
        }
    return list(left)


def test_a_mutant_of_every_alert_is_found_out(tmp_path: Path) -> None:
    """One of each, another kind of mistake from alert to alert."""
    wrong = {}
    for number, alert in enumerate(CASES_OF):
        of_alert = list(plain_mutants(ALERTING[alert]))
        what, rule = of_alert[number % len(of_alert)]
        wrong[f"{alert}, {what}"] = {alert: rules_for(rule)}
    assert "\n".join(survivors(tmp_path, wrong, CaseScenarios.telling)) == ""


@pytest.mark.soak
@pytest.mark.timeout(LONG_SECONDS)
def test_every_mutant_of_every_alert_is_found_out(tmp_path: Path) -> None:
    wrong = {
        f"{alert}, {what}": {alert: rules_for(rule)}
        for alert in CASES_OF
        for what, rule in mutants(ALERTING[alert])
    }
    assert "\n".join(survivors(tmp_path, wrong, CaseScenarios.telling, CaseScenarios.otherwise)) == ""


@pytest.mark.soak
@pytest.mark.timeout(LONG_SECONDS)
def test_every_mutant_of_a_recording_is_found_out(tmp_path: Path) -> None:
    """By the alerts that are made of it; the few with the most cases are enough."""
    wrong: dict[str, dict[str, Any]] = {}
    for record, rule in RECORDED.items():
        if record.startswith("asyncrl:threshold:"):
            continue
        users = [alert for alert in CASES_OF if record in needs(ALERTING[alert]["expr"])]
        users.sort(key=lambda alert: len(CASES_OF[alert]), reverse=True)
        for what, mutant in mutants(rule):
            recorded = {**RECORDED, record: mutant}
            wrong[f"{record}, {what}"] = {
                alert: rules_for(ALERTING[alert], recorded) for alert in users[:FEW]
            }
    assert "\n".join(survivors(tmp_path, wrong, CaseScenarios.telling, CaseScenarios.otherwise)) == ""
