"""promtool's unit tests, written by Python: rules, series by the minute, and the alerts that fire at some minutes."""

import json
import math
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

from tests.dashboards.healthy_run import STALE, Values
from tests.prometheus import require_binary

Labels = Mapping[str, str]
PROCESSES = 2
WATCHDOG_SECONDS = 280


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenario:
    """What is scraped, and exactly the alerts that fire at some minutes. `mark` is the value of a label that all
    its series and alerts have, and those of no other: scenarios share one Prometheus."""

    mark: str
    series: Mapping[str, Values]
    firing: Mapping[int, Sequence[Labels]]
    marked: str = "job"

    def checks(self, alert: str) -> list[dict[str, Any]]:
        return [
            {
                "expr": f'ALERTS{{alertstate="firing",{alert},{self.marked}="{self.mark}"}}',
                "eval_time": f"{minute}m",
                "exp_samples": [{"labels": alert_series(labels), "value": 1} for labels in alerts],
            }
            for minute, alerts in self.firing.items()
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Suite:
    """Some rules, and the scenarios that they are put to, side by side."""

    name: str
    rules: Mapping[str, Any]
    scenarios: Sequence[Scenario]
    alert: str = ""
    """The alert that is looked at; all but the Watchdog if empty."""

    def as_test(self) -> dict[str, Any]:
        alert = f'alertname="{self.alert}"' if self.alert else 'alertname!="AsyncRLWatchdog"'
        last = max(max(scenario.firing) for scenario in self.scenarios)
        return {
            "name": self.name,
            "interval": "1m",
            "input_series": [
                {"series": name, "values": written(values, min(last, max(scenario.firing)))}
                for scenario in self.scenarios
                for name, values in scenario.series.items()
            ],
            "promql_expr_test": [check for scenario in self.scenarios for check in scenario.checks(alert)],
        }


def written(values: Values, last: int) -> str:
    """The notation of promtool: a number, `_` for no sample, `stale`; repeated ones are written once."""
    samples = [_sample(values(minute)) for minute in range(last + 1)]
    runs: list[tuple[str, int]] = []
    for sample in samples:
        if runs and runs[-1][0] == sample:
            runs[-1] = (sample, runs[-1][1] + 1)
        else:
            runs.append((sample, 1))
    return " ".join(_repeated(sample, times) for sample, times in runs)


def _sample(value: float | str | None) -> str:
    if value is None:
        return "_"
    return value if isinstance(value, str) else "NaN" if math.isnan(value) else f"{value:.12g}"


def _repeated(sample: str, times: int) -> str:
    if times == 1 or sample in (STALE, "NaN"):  # promtool repeats neither
        return " ".join([sample] * times)
    return f"_x{times}" if sample == "_" else f"{sample}x{times - 1}"


def alert_series(labels: Labels) -> str:
    named = {"alertstate": "firing", **labels}
    return "ALERTS{" + ",".join(f'{name}="{value}"' for name, value in named.items()) + "}"


def run_suites(
    directory: Path, suites: Sequence[Suite], *, watchdog_seconds: float = WATCHDOG_SECONDS
) -> dict[str, str]:
    """What promtool complains of, by suite; empty where all is as expected."""
    return _verdicts(directory, suites, [suite.as_test() for suite in suites], watchdog_seconds)


def said_by_alerts(directory: Path, suites: Sequence[Suite]) -> dict[str, str]:
    """Labels and annotations of the alerts that fire at the first minute of each suite where some are expected:
    promtool, told to expect none, says what there is."""
    tests = []
    for suite in suites:
        minute = min(minute for minute, alerts in suite.scenarios[0].firing.items() if alerts)
        question = {"eval_time": f"{minute}m", "alertname": suite.alert, "exp_alerts": []}
        tests.append({**suite.as_test(), "promql_expr_test": [], "alert_rule_test": [question]})
    return _verdicts(directory, suites, tests, WATCHDOG_SECONDS)


def _verdicts(
    directory: Path, suites: Sequence[Suite], tests: Sequence[Any], watchdog_seconds: float
) -> dict[str, str]:
    """Its files are JSON, which is YAML."""
    promtool = require_binary("promtool")
    for suite, test in zip(suites, tests, strict=True):
        (directory / f"{suite.name}.rules.yaml").write_text(json.dumps(suite.rules))
        file = {
            "rule_files": [f"{suite.name}.rules.yaml"],
            "evaluation_interval": suite.rules["groups"][0]["interval"],
            "group_eval_order": [group["name"] for group in suite.rules["groups"]],
            "tests": [test],
        }
        (directory / f"{suite.name}.test.yaml").write_text(json.dumps(file))
    files = [f"{suite.name}.test.yaml" for suite in suites]
    shares = [share for share in (files[i::PROCESSES] for i in range(PROCESSES)) if share]
    with ThreadPool(PROCESSES) as pool:
        output = "".join(pool.map(partial(_test_rules, promtool, directory, watchdog_seconds), shares))
    told = re.findall(r"Unit Testing:\s+(\S+)\.test\.yaml\n(.*?)(?=Unit Testing:|\Z)", output, re.DOTALL)
    assert {name for name, _ in told} == {suite.name for suite in suites}, output
    return {name: "" if verdict.strip() == "SUCCESS" else verdict for name, verdict in told}


def _test_rules(promtool: str, directory: Path, watchdog_seconds: float, files: Sequence[str]) -> str:
    tested = subprocess.run(
        [promtool, "test", "rules", *files],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=watchdog_seconds,
        check=False,
    )
    return tested.stdout
