"""The PrometheusRule: the generated groups as they are, thresholds from the values, groups of one's own."""

from typing import Any

import pytest
import yaml

from tests.helm.chart import CHART, HELM_MAJORS, ROOT, Object, refusal, render

FILE = CHART / "files" / "rules.yaml"
THRESHOLDS = "asyncrl-thresholds"
ON = {"enabled": True}


def generated_groups() -> list[Object]:
    groups: list[Object] = yaml.load(FILE.read_bytes(), Loader=yaml.CSafeLoader)["groups"]
    return groups


def groups(**options: Any) -> list[Object]:
    found: list[Object] = render({"prometheusRule": ON | options}).one("PrometheusRule")["spec"]["groups"]
    return found


def test_the_chart_ships_what_was_generated() -> None:
    assert FILE.read_bytes() == (ROOT / "dashboards" / "generated" / "rules.yaml").read_bytes()


def test_there_are_no_rules_until_they_are_asked_for() -> None:
    assert render().all("PrometheusRule") == []
    assert groups() == generated_groups()


def test_a_threshold_of_the_values_takes_the_place_of_the_generated_one_and_nothing_else_changes() -> None:
    first, second, *_ = [
        rule["record"].removeprefix("asyncrl:threshold:") for rule in generated_groups()[0]["rules"]
    ]
    found = groups(thresholds={first: 0.75, second: 8388608})
    expected = generated_groups()
    assert expected[0]["name"] == THRESHOLDS
    expected[0]["rules"][0]["expr"] = "vector(0.75)"
    expected[0]["rules"][1]["expr"] = "vector(8388608)"
    assert found == expected


def test_a_threshold_may_be_any_number() -> None:
    names = [rule["record"].removeprefix("asyncrl:threshold:") for rule in generated_groups()[0]["rules"]]
    ratios = [name for name in names if name.endswith("_ratio")]
    others = [name for name in names if name not in ratios]
    values = dict(zip(others, [0, 1e-06, 1048576, 1e21, 2.5], strict=False))
    values |= {ratios[0]: 1, ratios[1]: 0.001, "reward_drop_ratio": 2}
    said = {
        rule["record"].removeprefix("asyncrl:threshold:"): rule["expr"]
        for rule in groups(thresholds=values)[0]["rules"]
    }
    found = {name: float(said[name].removeprefix("vector(").removesuffix(")")) for name in values}
    assert found == values
    by_flag = render({"prometheusRule": ON}, "--set", f"prometheusRule.thresholds.{names[0]}=0.75")
    assert by_flag.one("PrometheusRule")["spec"]["groups"][0]["rules"][0]["expr"] == "vector(0.75)"
    by_flag = render({"prometheusRule": ON}, "--set", f"prometheusRule.thresholds.{names[0]}=1e-6")
    assert by_flag.one("PrometheusRule")["spec"]["groups"][0]["rules"][0]["expr"] == "vector(1e-6)"
    assert groups(thresholds={names[0]: None}) == generated_groups()


def test_a_threshold_that_no_rule_uses_is_refused_with_those_that_are() -> None:
    said = refusal({"prometheusRule": ON | {"thresholds": {"idle": 0.5}}})
    assert 'there is no "idle"; known are ' in said
    assert generated_groups()[0]["rules"][0]["record"].removeprefix("asyncrl:threshold:") in said
    assert "thresholds" in refusal({"prometheusRule": ON | {"thresholds": {"idle": "much"}}})
    assert 'there is no "idle"' in refusal({"prometheusRule": {"thresholds": {"idle": 0.5}}})


@pytest.mark.parametrize("major", HELM_MAJORS)
def test_a_threshold_beyond_what_its_unit_can_be_is_refused(major: str) -> None:
    wrong = {
        "stalled_seconds": -1,
        "pause_seconds": "-5",
        "blow_up_factor": "1e999",
        "trainer_wait_ratio": 7,
        "entropy_drop_ratio": "1.5",
    }
    said = refusal({"prometheusRule": {"thresholds": wrong}}, major=major)
    assert [name for name in wrong if name not in said] == []


def test_a_group_of_yours_has_a_name_and_one_that_no_other_has() -> None:
    def extra(*names: str) -> Object:
        return {"prometheusRule": ON | {"extraGroups": [{"name": name, "rules": []} for name in names]}}

    shipped = generated_groups()[1]["name"]
    for names in ((shipped,), ("ours", "ours")):
        assert f'a name of its own, got "{names[-1]}"' in refusal(extra(*names))
    assert "extraGroups" in refusal({"prometheusRule": {"extraGroups": [{"rules": []}]}})


def test_the_object_has_labels_annotations_and_namespace_and_groups_of_yours() -> None:
    extra = [{"name": "ours", "rules": [{"record": "ours:runs:count", "expr": "count(asyncrl_run_info)"}]}]
    rendered = render(
        {
            "prometheusRule": ON
            | {
                "labels": {"release": "prom", "team": "a"},
                "annotations": {"note": "b"},
                "namespace": "monitoring",
                "extraGroups": extra,
            }
        }
    )
    rule = rendered.one("PrometheusRule")
    assert {"release": "prom", "team": "a"}.items() <= rule["metadata"]["labels"].items()
    assert rule["metadata"]["annotations"] == {"note": "b"}
    assert rule["metadata"]["namespace"] == "monitoring"
    assert rule["spec"]["groups"] == generated_groups() + extra
