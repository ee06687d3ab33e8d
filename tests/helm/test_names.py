"""Names, labels and texts: what a cluster admits, however a release, a namespace or a Secret is called."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from kubernetes_validate import validate

from tests.helm.chart import (
    CHART,
    FULLNAME,
    HELM_MAJORS,
    NEWEST_KUBERNETES,
    Rendered,
    copy_chart,
    objects_in,
    refusal,
    render,
    run_helm,
)
from tests.helm.ray_job import run, templates
from tests.helm.test_cases import CRD_GROUPS

ON = {"enabled": True}
EVERYTHING: dict[str, Any] = {
    "replicas": 2,
    "networkPolicy": ON,
    "serviceMonitor": ON,
    "prometheusRule": ON,
    "dashboards": ON,
    "run": ON,
}


def assert_admitted(rendered: Rendered) -> None:
    """By the schemas of Kubernetes; of custom resources, what they have in common with the rest."""
    for each in rendered.objects:
        metadata = each["metadata"]
        texts = [metadata["name"], metadata["namespace"]]
        texts += [*metadata["labels"].values(), *metadata.get("annotations", {}).values()]
        assert all(isinstance(text, str) for text in texts), texts
        if not each["apiVersion"].startswith(CRD_GROUPS):
            validate(each, NEWEST_KUBERNETES, strict=True)


def test_a_name_that_yaml_reads_as_something_else_stays_a_name() -> None:
    values: dict[str, Any] = {
        "auth": {"existingSecret": "123"},
        "tls": {"existingSecret": "0777"},
        "persistence": {"storageClass": "null"},
        "serviceAccount": {"create": False, "name": "456"},
        "priorityClassName": "789",
        "networkPolicy": ON | {"ingestNamespaces": ["1", "null"], "scrapeNamespaces": ["2"]},
    }
    run: dict[str, Any] = {"priorityClassName": "1", "storage": {"existingClaim": "2"}}
    assert_admitted(render(EVERYTHING | values | {"run": ON | run}, release="true", namespace="123"))


def test_whatever_yaml_makes_of_the_name_of_the_objects_it_stays_a_name() -> None:
    rendered = render(EVERYTHING | {"dashboards": {}}, "--set-string", "fullnameOverride=yes")
    assert_admitted(rendered)
    assert rendered.one("StatefulSet")["metadata"]["name"] == "yes"
    assert re.findall(r"[nN]ame: yes$", rendered.text, re.MULTILINE) == []


def test_teams_that_put_objects_into_one_namespace_do_not_overwrite_each_other() -> None:
    """Monitors, rules and boards of releases of one name, in namespaces of their own."""
    there = ON | {"namespace": "monitoring"}
    values = {"serviceMonitor": there, "prometheusRule": there, "dashboards": there}
    moved = {
        (each["kind"], each["metadata"]["name"])
        for home in ("team-a", "team-b")
        for each in render(values, namespace=home).objects
        if each["metadata"]["namespace"] == "monitoring"
    }
    boards = len([*(CHART / "files/dashboards").iterdir()])
    assert len(moved) == 2 * (boards + 2)
    assert {name.rpartition(".")[2] for _, name in moved} == {"team-a", "team-b"}
    at_home = render({"podMonitor": ON | {"namespace": "team-a"}}, namespace="team-a")
    assert at_home.one("PodMonitor")["metadata"]["name"] == FULLNAME


@pytest.mark.parametrize("release", ["rl-prod", "my-asyncrl-exporter"])
def test_two_aliases_of_the_chart_in_one_release_are_two_exporters(release: str, tmp_path: Path) -> None:
    (tmp_path / "charts").mkdir()
    copy_chart(tmp_path).rename(tmp_path / "charts" / "asyncrl-exporter")
    aliases = [{"name": "asyncrl-exporter", "version": "0.1.0", "alias": alias} for alias in ("rl", "prod")]
    parent = {"apiVersion": "v2", "name": "parent", "version": "0.1.0", "dependencies": aliases}
    (tmp_path / "Chart.yaml").write_text(json.dumps(parent), encoding="utf-8")
    ran = run_helm(
        HELM_MAJORS[-1],
        *("template", release, str(tmp_path), "--set", "rl.podMonitor.enabled=true"),
        *("--set", "prod.serviceMonitor.enabled=true"),
    )
    assert ran.returncode == 0, ran.stderr
    objects = objects_in(ran.stdout)
    named = [(each["kind"], each["metadata"]["name"]) for each in objects]
    assert len(set(named)) == len(named)
    selectors = [each["spec"]["selector"]["matchLabels"] for each in objects if each["kind"] == "StatefulSet"]
    assert len(selectors) == 2
    assert selectors[0] != selectors[1]
    jobs = re.findall(r"targetLabel: job\n +replacement: (.+)", ran.stdout)
    assert len(set(jobs)) == 2


@pytest.mark.parametrize("release", ["my.release.v1", "a" * 51 + ".b", "a" * 50 + "--b"])
def test_a_service_has_a_name_that_a_service_may_have_whatever_the_release_has(release: str) -> None:
    rendered = render(EVERYTHING, release=release)
    assert_admitted(rendered)
    for service in rendered.all("Service"):
        name = service["metadata"]["name"]
        assert "." not in name
        assert not name.removesuffix("-pods").endswith("-")
    labels = rendered.pod()["metadata"]["labels"]
    assert labels["app.kubernetes.io/instance"] == release


def test_a_name_that_no_service_may_have_is_refused_with_what_to_do() -> None:
    for name in ("My_name", "2024-telemetry", "a.b"):
        assert f'cannot be named "{name}": set fullnameOverride' in refusal({"fullnameOverride": name})


def test_labels_of_yours_win_on_objects_and_never_over_a_selector() -> None:
    """And stand there once: `kustomize` and Argo CD take no key twice."""
    mine = {"app.kubernetes.io/name": "mine", "app.kubernetes.io/instance": "kps", "team": "a"}
    values: dict[str, Any] = {
        "podLabels": mine,
        "podAnnotations": {"checksum/config": "mine"},
        "serviceMonitor": ON | {"labels": mine},
        "prometheusRule": ON | {"labels": mine},
        "run": ON | {"labels": mine, "podAnnotations": {"checksum/config": "mine"}},
    }
    rendered, bare = render(values), render({"run": ON})
    for kind in ("ServiceMonitor", "PrometheusRule", "RayJob"):
        assert mine.items() <= rendered.one(kind)["metadata"]["labels"].items()
    assert rendered.pod()["metadata"]["labels"] == {"team": "a"} | bare.pod()["metadata"]["labels"]
    assert rendered.pod()["metadata"]["annotations"] == bare.pod()["metadata"]["annotations"]
    cluster = rendered.one("RayJob")["spec"]["rayClusterSpec"]
    assert cluster == bare.one("RayJob")["spec"]["rayClusterSpec"]
    (board, *_) = render({"dashboards": ON | {"label": "app.kubernetes.io/name"}}).all("ConfigMap")[1:]
    assert board["metadata"]["labels"]["app.kubernetes.io/name"] == "1"


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({"podLabels": {"run": 20260101}}, "podLabels/run"),
        ({"podAnnotations": {"flag": True}}, "podAnnotations/flag"),
        ({"nodeSelector": {"gpu": True}}, "nodeSelector/gpu"),
        ({"serviceMonitor": {"labels": {"release": 1}}}, "serviceMonitor/labels/release"),
        ({"run": {"podAnnotations": {"a": 1}}}, "run/podAnnotations/a"),
        ({"extraEnv": [{"name": "A", "value": 5}]}, "extraEnv/0/value"),
        ({"run": {"extraEnv": [{"value": "5"}]}}, "run/extraEnv/0"),
    ],
)
def test_a_number_where_the_cluster_wants_a_text_is_refused_by_helm(
    values: dict[str, Any], where: str
) -> None:
    assert where in refusal(values)


@pytest.mark.parametrize("major", HELM_MAJORS)
def test_null_takes_away_a_label_of_a_file_further_back(major: str, tmp_path: Path) -> None:
    def values(keep: str | None) -> dict[str, Any]:
        texts = {"gone": keep, "stays": "0042"}
        place = {"nodeSelector": texts}
        return {
            **place,
            "podLabels": texts,
            "podAnnotations": texts,
            "persistence": {"annotations": texts},
            "service": {"annotations": texts},
            "serviceAccount": {"annotations": texts},
            "serviceMonitor": ON | {"labels": texts},
            "prometheusRule": ON | {"labels": texts, "annotations": texts},
            "run": ON | {"labels": texts, "podAnnotations": texts, "head": place, "trainer": place},
        }

    file = tmp_path / "base.yaml"
    file.write_text(json.dumps(values("yes")), encoding="utf-8")
    text = render({}, "--values", str(file), major=major).text
    run = run_helm(
        major, "template", "rel", str(CHART), "-f", str(file), "-f", "-", stdin=json.dumps(values(None))
    )
    assert run.returncode == 0, run.stderr
    assert len(re.findall('gone: "yes"', text)) == len(re.findall('stays: "0042"', text)) > 10
    assert "gone:" not in run.stdout
    assert run.stdout.count('stays: "0042"') == text.count('stays: "0042"')
    only = render({"nodeSelector": {"gone": None}, "service": {"annotations": {"gone": None}}}, major=major)
    assert "nodeSelector" not in only.text
    assert "annotations" not in only.one("Service", FULLNAME)["metadata"]


def test_a_volume_of_yours_is_not_called_like_one_of_the_chart() -> None:
    everything = {"tls": {"existingSecret": "t"}, "persistence": {"enabled": False}}
    rendered = run(chart=everything)
    pods = {"extraVolumes": [rendered.pod()], "run.extraVolumes": [*templates(rendered).values()]}
    for path, own in pods.items():
        names = {volume["name"] for pod in own for volume in pod["spec"]["volumes"]}
        extra = {"extraVolumes": [{"name": "tmp", "emptyDir": {}}]}
        said = refusal({"run": ON | extra} if path.startswith("run") else extra)
        listed = re.search(rf"{path}: a volume must not be .*\((.*)\), got \"tmp\": give it another", said)
        assert listed is not None, said
        assert set(listed[1].split(", ")) == names


def test_a_duration_is_one_that_its_operator_reads() -> None:
    def certificate(**durations: str) -> dict[str, Any]:
        return {"tls": {"certManager": ON | {"issuerRef": {"name": "ca"}} | durations}}

    assert render(certificate(duration="2160h0m0s")).one("Certificate")["spec"]["duration"] == "2160h0m0s"
    assert "duration" in refusal(certificate(duration="90d"))  # Go knows no days
    for interval in ("30s", "1m30s", "1d"):
        endpoints = render({"serviceMonitor": ON | {"interval": interval}}).one("ServiceMonitor")["spec"]
        assert endpoints["endpoints"][0]["interval"] == interval
    assert "interval" in refusal({"serviceMonitor": ON | {"interval": "30s1m"}})
