"""From a case of an alert to what promtool is asked: the rules it needs, and the scenarios of every kind."""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

from dashboards.alerts import ALERTS
from dashboards.rules import rules
from tests.dashboards.alert_cases import AlertCase, Changes
from tests.dashboards.healthy_run import (
    OF_EXPORTER,
    OF_HOST,
    OF_RUN,
    STALE,
    Change,
    Level,
    Values,
    always,
    level,
)
from tests.dashboards.promtool import Labels, Scenario

RULES = rules()
RECORDED = {rule["record"]: rule for group in RULES["groups"] for rule in group["rules"] if "record" in rule}
ALERTING = {rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"] if "alert" in rule}
RECORD_NAME = re.compile(r"asyncrl:[a-z_:]*[a-z](?![a-z_:])")
"""Not the beginning of one, as a matcher of many has it."""
SLACK_MINUTES = 1
"""A range in Prometheus 3 is without its left end: averages move a minute earlier."""

FAILS_EVERY_MINUTES = 5
EXPORTERS = ("a:9810", "b:9810")
HOST_PREFIX = "DCGM_"
"""Of what is said of hosts."""


def needs(expression: str) -> list[str]:
    """The recording rules behind an expression, each after those that it is made of."""
    found: dict[str, None] = {}
    for name in RECORD_NAME.findall(expression):
        found |= dict.fromkeys([*needs(RECORDED[name]["expr"]), name])
    return list(found)


def rules_for(
    rule: Mapping[str, Any], recorded: Mapping[str, Mapping[str, Any]] = RECORDED
) -> dict[str, Any]:
    """A rule file with one alert and what it needs, in one group."""
    group = [*(recorded[name] for name in needs(rule["expr"])), rule]
    return {
        "groups": [
            {"name": "one", "interval": RULES["groups"][0]["interval"], "rules": [dict(r) for r in group]}
        ]
    }


def labelled(name: str, **labels: str) -> str:
    family, own = name.removesuffix("}").split("{")
    return family + "{" + ",".join([*filter(None, [own]), *(f'{k}="{v}"' for k, v in labels.items())]) + "}"


def scraped(
    mark: str,
    of_run: Mapping[str, Values],
    of_exporter: Mapping[str, Values] = OF_EXPORTER,
    of_host: Mapping[str, Values] = OF_HOST,
    *,
    exporter: str = EXPORTERS[0],
) -> dict[str, Values]:
    """The series as Prometheus stores them: job, run and host are called after the scenario."""
    return {
        **{labelled(name, job=mark, instance=exporter, run=mark): v for name, v in of_run.items()},
        **{labelled(name, job=mark, instance=exporter): values for name, values in of_exporter.items()},
        **{labelled(name, job="dcgm", Hostname=mark): values for name, values in of_host.items()},
    }


class CaseScenarios:
    """The scenarios of one case."""

    def __init__(self, case: AlertCase) -> None:
        self.case = case
        self.rules = rules_for(ALERTING[case.alert])
        self.text = " ".join(rule["expr"] for rule in self.rules["groups"][0]["rules"])
        self.first = case.since + case.after
        """The minute in which it begins to fire."""
        self.over = case.until + case.lingers

    def all(self) -> list[Scenario]:
        return [*self.telling(), *self.otherwise()]

    def telling(self) -> list[Scenario]:
        """Those that tell a right rule from most wrong ones."""
        return [self.fires(), *self.at_the_edges()]

    def otherwise(self) -> Iterator[Scenario]:
        """What else may come."""
        case = self.case
        yield self.said_by_two_exporters()
        yield self.with_failed_scrapes()
        if not (case.no_run or case.outlives_run):
            yield self.of_a_finished_run()
        if not case.without:
            yield self.without_series()
        if any(self._is_number(change) for change in case.bad.values()):
            yield self.with_nan()

    def fires(self) -> Scenario:
        return self._scenario("fires", self._changed(self.case.bad), self._fires())

    def at_the_edges(self) -> Iterator[Scenario]:
        for number, edge in enumerate(self.case.edges):
            yield self._scenario(f"edge-{number}", self._changed(edge), self._quiet())

    def said_by_two_exporters(self) -> Scenario:
        changed = self._changed(self.case.bad)
        instances = EXPORTERS if self.case.of_instance else EXPORTERS[:1]
        return self._scenario("two-exporters", changed, self._fires(*instances), exporters=EXPORTERS)

    def with_failed_scrapes(self) -> Scenario:
        """Every fifth scrape fails: what is bad all the time is seen all the same, a few minutes later."""
        seen = {name: _holed(name, values) for name, values in self._changed(self.case.bad).items()}
        later = self.first + FAILS_EVERY_MINUTES
        failing = next(minute for minute in range(later, later + FAILS_EVERY_MINUTES) if _fails(minute))
        return self._scenario("failed-scrapes", seen, {failing - 1: EXPORTERS[:1], failing: EXPORTERS[:1]})

    def of_a_finished_run(self) -> Scenario:
        """It completed when it became bad: its last values stay on the page and wake nobody."""
        ended = self._changed(self.case.bad)
        for status, before in (("running", 1.0), ("completed", 0.0)):
            change = Level(always(before), always(1 - before))
            ended[f'asyncrl_run_status{{status="{status}"}}'] = change(self.case.since, self.over + 10)
        return self._scenario("finished", ended, self._quiet())

    def without_series(self) -> Scenario:
        absent: Changes = {name: lambda since, until: lambda minute: None for name in self.case.bad}
        return self._scenario("missing", self._changed(absent), self._quiet())

    def with_nan(self) -> Scenario:
        """Not a number is neither above nor below."""
        bad = {
            name: level(change.usual, math.nan) if self._is_number(change) else change
            for name, change in self.case.bad.items()
        }
        return self._scenario("nan", self._changed(bad), self._quiet())

    # ----

    def _changed(self, changes: Changes) -> dict[str, Values]:
        """The healthy run as the case has it, with some changes."""
        changed = {name: change(self.case.since, self.case.until) for name, change in changes.items()}
        return {**OF_RUN, **OF_EXPORTER, **OF_HOST, **self.case.base, **changed}

    def _is_number(self, change: Change) -> TypeGuard[Level]:
        """Whether it is of a gauge that has another value meanwhile."""
        return isinstance(change, Level) and not isinstance(change.other(self.case.since), str)

    def _fires(self, *instances: str) -> dict[int, tuple[str, ...]]:
        """Not before its time, within it, and not after it."""
        alerts = instances or EXPORTERS[:1]
        return {
            self.first - 1 - SLACK_MINUTES: (),
            self.first + SLACK_MINUTES: alerts,
            self.over - 1 - SLACK_MINUTES: alerts,
            self.over + SLACK_MINUTES: (),
        }

    def _quiet(self) -> dict[int, tuple[str, ...]]:
        """Never, as far as a few looks can tell: right before and after it would fire, and to the end."""
        minutes = {self.case.since, self.first - 1, self.first + SLACK_MINUTES, self.first + 5, self.over - 1}
        return dict.fromkeys(sorted(minutes), ())

    def _scenario(
        self,
        kind: str,
        values: Mapping[str, Values],
        firing: Mapping[int, tuple[str, ...]],
        exporters: tuple[str, ...] = EXPORTERS[:1],
    ) -> Scenario:
        """Of the series only those that the rules name; `firing` has the exporters that alerts are of."""
        named = {
            name: series
            for name, series in values.items()
            if name.split("{")[0] in self.text or ("_reported_" in name and "_reported_" in self.text)
        }
        hosts = {name: series for name, series in named.items() if name.startswith(HOST_PREFIX)}
        own = {name: series for name, series in named.items() if name in OF_EXPORTER}
        runs = {name: series for name, series in named.items() if name not in hosts and name not in own}
        mark = f"{self.case.alert}-{kind}"
        seen: dict[str, Values] = {}
        for exporter in exporters:
            seen |= scraped(mark, runs, own, hosts, exporter=exporter)
        return Scenario(
            mark=mark,
            series=seen,
            firing={minute: [self._labels(mark, of) for of in alerts] for minute, alerts in firing.items()},
            marked="Hostname" if self.case.of_host else "job",
        )

    def _labels(self, mark: str, exporter: str) -> Labels:
        case = self.case
        subject = {"Hostname": mark} if case.of_host else {"job": mark}
        run = {} if case.no_run else {"run": mark}
        instance = {"instance": exporter} if case.of_instance else {}
        severity = ALERTS[case.alert].severity
        return {"alertname": case.alert, "severity": severity, **subject, **run, **instance, **case.labels}


def _fails(minute: int) -> bool:
    return minute % FAILS_EVERY_MINUTES == 3


def _holed(name: str, values: Values) -> Values:
    """As if every fifth scrape failed."""
    failed = 0.0 if name.startswith("up{") else STALE
    return lambda minute: failed if _fails(minute) else values(minute)
