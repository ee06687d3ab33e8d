"""The tool itself: what a rule finds arrives at the webhook, unless what inhibits it does, and resolves."""

import time
from pathlib import Path

import pytest
import yaml

from tests.alertmanager import run_alertmanager, run_pager
from tests.prometheus import Alerting, run_prometheus

INHIBITION = """
inhibit_rules:
  - source_matchers: [alertname = "Cause"]
    target_matchers: [alertname = "Effect"]
    equal: [run]
"""


@pytest.mark.peer
def test_an_effect_is_told_once_its_cause_has_gone(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    cause = {"alert": "Cause", "expr": f"vector(time() - {time.time()}) < 10", "labels": {"run": "r"}}
    effects = [{"alert": "Effect", "expr": "vector(1)", "labels": {"run": run}} for run in ("r", "other")]
    rules.write_text(yaml.safe_dump({"groups": [{"name": "g", "rules": [cause, *effects]}]}))
    with (
        run_pager() as pager,
        run_alertmanager(tmp_path, pager, inhibition=INHIBITION) as alertmanager,
        run_prometheus(
            tmp_path,
            [],
            interval_seconds=1,
            alerting=Alerting(rules=rules, alertmanager=alertmanager, lookback_seconds=5),
        ),
    ):
        assert pager.wait_for(lambda: pager.firing(run="r") == {"Effect"}), pager.heard
    told = [(told.alert, told.status) for told in pager.told(run="r")]
    assert told[0] == ("Cause", "firing")
    assert sorted(told[1:]) == [("Cause", "resolved"), ("Effect", "firing")]
    assert pager.fired(run="other") == {"Effect"}
