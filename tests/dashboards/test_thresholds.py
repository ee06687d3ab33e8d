"""Thresholds that are not what they should be: AsyncRLThresholdInvalid, before promtool with all of them."""

from collections.abc import Mapping
from pathlib import Path

from dashboards.thresholds import THRESHOLDS
from tests.dashboards.alert_scenarios import ALERTING, RECORDED
from tests.dashboards.healthy_run import Values, always
from tests.dashboards.promtool import Labels, Scenario, Suite, run_suites

ALERT = "AsyncRLThresholdInvalid"
NAME = "stalled_seconds"
OF_ALL: Labels = {"alertname": ALERT, "severity": "warning"}
OF_ONE: Labels = {**OF_ALL, "threshold": NAME}
RECORDS = {one.record for one in THRESHOLDS.values()}
ONCE_MORE = THRESHOLDS[NAME].record + '{threshold="' + NAME + '",copy="b"}'


def suite(
    name: str, series: Mapping[str, Values], firing: Mapping[int, list[Labels]], *missing: str
) -> Suite:
    """All thresholds but some. The alert has no label but its severity that all of its series share."""
    rules = [rule for record, rule in RECORDED.items() if record in RECORDS and record not in missing]
    group = {"name": "one", "interval": "1m", "rules": [*rules, ALERTING[ALERT]]}
    scenario = Scenario(mark="warning", marked="severity", series=series, firing=firing)
    return Suite(name=name, rules={"groups": [group]}, scenarios=[scenario], alert=ALERT)


def changing(minutes: int) -> Mapping[str, Values]:
    """A number that is another one from minute 10 on, and hops every so many minutes."""
    name = ONCE_MORE.replace(',copy="b"', "")
    return {name: lambda minute: 600.0 if minute < 10 else 900.0 + 100 * (minute // minutes % 2)}


def test_a_threshold_is_one_series_that_stands_still(tmp_path: Path) -> None:
    record = THRESHOLDS[NAME].record
    suites = [
        suite("as-shipped", {}, {5: [], 30: [], 60: []}),
        suite("missing", {}, {1: [], 4: [OF_ALL], 60: [OF_ALL]}, record),
        suite("none", {}, {4: [OF_ALL]}, *RECORDS),
        suite("twice", {ONCE_MORE: always(600)}, {1: [], 4: [OF_ONE], 60: [OF_ONE]}),
        suite("hopping", changing(1), {9: [], 20: [OF_ONE], 60: [OF_ONE]}, record),
        suite("changed-once", changing(1000), {9: [], 15: [], 60: []}, record),
    ]
    complaints = run_suites(tmp_path, suites)
    assert not any(complaints.values()), "\n".join(complaints.values())
