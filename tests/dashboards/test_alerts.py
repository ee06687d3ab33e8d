"""Every alert, before promtool: it fires when it should and where it should, and is quiet otherwise."""

from pathlib import Path

from dashboards.alerts import ALERTS
from tests.dashboards.alert_cases import CASES
from tests.dashboards.alert_scenarios import CaseScenarios
from tests.dashboards.promtool import Suite, run_suites


def test_every_alert_has_a_case() -> None:
    of_the_rules = {"AsyncRLWatchdog", "AsyncRLThresholdInvalid"}
    assert sorted({case.alert for case in CASES}) == sorted(ALERTS.keys() - of_the_rules)


def test_alerts_fire_when_they_should_and_are_quiet_otherwise(tmp_path: Path) -> None:
    """Each fires, not before its time, and is over in time; at the edge of its condition it is quiet. It names
    the bad run of two, once although two exporters tell of it; failed scrapes do not hide it; missing series, NaN
    and runs that have ended do not make it fire."""
    suites = []
    for number, case in enumerate(CASES):
        scenarios = CaseScenarios(case)
        suites.append(
            Suite(
                name=f"{number}-{case.alert}",
                rules=scenarios.rules,
                scenarios=scenarios.all(),
                alert=case.alert,
            )
        )
    complaints = run_suites(tmp_path, suites)
    assert not any(complaints.values()), "\n".join(complaints.values())
