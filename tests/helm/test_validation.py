"""What the chart renders is what Kubernetes and the operators take, for each file of ci/ and both majors of helm."""

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.helm.chart import (
    CHART,
    CI_VALUES,
    HELM_MAJORS,
    NEWEST_KUBERNETES,
    OLDEST_KUBERNETES,
    ROOT,
    WATCHDOG_SECONDS,
    Object,
    Rendered,
    render,
    require,
    run_helm,
)
from tests.helm.test_scraping import EVERY_OPTION

VALIDATORS = ".cache/crd-validators/installed"
FIELDS = {
    "ServiceMonitor": ("ServiceMonitorSpec", {"endpoints": "Endpoint"}),
    "PodMonitor": ("PodMonitorSpec", {"podMetricsEndpoints": "PodMetricsEndpoint"}),
    "PrometheusRule": ("PrometheusRuleSpec", {"groups": "RuleGroup"}),
}
"""The types of a spec and of the entries of its list."""
NOT_VALIDATED = {"RayJob"}
"""No registry has a validator for it; test_ray_job.py checks its structure."""


def ci_values(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((CHART / "ci" / name).read_text(encoding="utf-8"))
    return loaded


def everything() -> Iterator[tuple[str, Rendered]]:
    for path in CI_VALUES:
        for major in HELM_MAJORS:
            yield f"{path.name} by helm {major}", render(ci_values(path.name), major=major)


def test_there_is_a_file_of_values_for_each_way_to_install() -> None:
    assert len(CI_VALUES) >= 4
    kinds = {each["kind"] for _, rendered in everything() for each in rendered.objects}
    assert {
        "Certificate",
        "ConfigMap",
        "NetworkPolicy",
        "Pod",
        "PodDisruptionBudget",
        "PodMonitor",
        "PrometheusRule",
        "Secret",
        "Service",
        "ServiceAccount",
        "ServiceMonitor",
        "StatefulSet",
    } <= kinds


@pytest.mark.parametrize("major", HELM_MAJORS)
def test_lint_has_nothing_to_say(major: str) -> None:
    assert run_helm(major, "version", "--short").stdout.startswith({"3": "v3.17.", "4": "v4.1."}[major])
    for path in CI_VALUES:
        lint = run_helm(major, "lint", "--strict", str(CHART), "--values", str(path))
        assert lint.returncode == 0, lint.stdout + lint.stderr
        complaints = [
            line for line in lint.stdout.splitlines() if "[" in line and "icon is recommended" not in line
        ]
        assert complaints == []


def test_both_majors_render_the_same() -> None:
    """But for the random token and its digest."""
    random = re.compile(r"[0-9a-zA-Z]{48,}")
    for path in CI_VALUES:
        first, second = (render(ci_values(path.name), major=major).objects for major in HELM_MAJORS)
        texts = [random.sub("*", json.dumps(objects, sort_keys=True)) for objects in (first, second)]
        assert texts[0] == texts[1], path.name


@pytest.mark.parametrize("version", [OLDEST_KUBERNETES, NEWEST_KUBERNETES])
def test_kubernetes_takes_every_object(version: str) -> None:
    custom = {"Certificate", *FIELDS, *NOT_VALIDATED}
    rendered = [render(ci_values(path.name), "--kube-version", f"{version}.0") for path in CI_VALUES]
    objects = [each for each in distinct(rendered) if each["kind"] not in custom]
    assert len(objects) > 25
    for each in objects:
        kubernetes_validate.validate(each, version, strict=True)


def distinct(rendered: Sequence[Rendered]) -> list[Object]:
    """Each object once, however many files render it."""
    by_text = {json.dumps(each, sort_keys=True): each for one in rendered for each in one.objects}
    return list(by_text.values())


def custom_resources() -> list[Object]:
    """Of the ci files, and monitors with every option there is."""
    monitors = [render({name: EVERY_OPTION}) for name in ("serviceMonitor", "podMonitor")]
    rendered = distinct([*(each for _, each in everything()), *monitors])
    return [each for each in rendered if each["kind"] in {"Certificate", *FIELDS}]


def test_the_operators_take_their_objects() -> None:
    folder = require(VALIDATORS).parent
    objects = custom_resources()
    assert {each["kind"] for each in objects} == {"Certificate", *FIELDS}
    script = (ROOT / "tests" / "helm" / "custom_resources.mjs").read_text(encoding="utf-8")
    wrong: Object = {"apiVersion": "monitoring.coreos.com/v1", "kind": "PodMonitor", "spec": {"selector": 1}}
    run = subprocess.run(
        ["node", "--input-type=module", "--eval", script],
        cwd=folder,
        input=json.dumps([*objects, wrong]),
        capture_output=True,
        text=True,
        timeout=WATCHDOG_SECONDS,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    *complaints, of_the_wrong = json.loads(run.stdout)
    assert complaints == [""] * len(objects)
    assert of_the_wrong


def test_every_field_of_a_monitor_or_rule_is_one_that_the_operator_knows() -> None:
    """The validators above let unknown fields pass, and the API server drops them."""
    types = require(VALIDATORS).parent / "node_modules/@kubernetes-models/prometheus-operator"

    def fields_of(name: str) -> set[str]:
        text = (types / "monitoring.coreos.com/v1" / f"{name}.d.ts").read_text(encoding="utf-8")
        return set(re.findall(r'^    "(\w+)"\??:', text, re.MULTILINE))

    for each in custom_resources():
        if each["kind"] not in FIELDS:
            continue
        spec_type, lists = FIELDS[each["kind"]]
        assert set(each["spec"]) <= fields_of(spec_type)
        for name, entry_type in lists.items():
            for entry in each["spec"][name]:
                assert set(entry) <= fields_of(entry_type)
                for rule in entry.get("rules", []):
                    assert set(rule) <= fields_of("Rule")
