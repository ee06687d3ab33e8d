"""The training run on KubeRay, as its API documents its objects.

Nothing that is installed here validates objects of KubeRay: the fields and their types below are those of its API
reference for 1.6. test_ray_pods.py has the pods in them.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from runtime.config_sources import load_config
from tests.helm.chart import (
    CHART,
    FULLNAME,
    HELM_MAJORS,
    NAMESPACE,
    RELEASE,
    ROOT,
    copy_chart,
    refusal,
    render,
    run_helm,
)
from tests.helm.ray_job import EXTRA, containers, job, run, settings

TEXT_MAP = dict[str, str]
JOB_FIELDS = {
    "entrypoint": str,
    "entrypointResources": str,
    "metadata": TEXT_MAP,
    "submissionMode": str,
    "backoffLimit": int,
    "shutdownAfterJobFinishes": bool,
    "ttlSecondsAfterFinished": int,
    "submitterPodTemplate": dict,
    "rayClusterSpec": dict,
}
CLUSTER_FIELDS = {
    "rayVersion": str,
    "authOptions": TEXT_MAP,
    "enableInTreeAutoscaling": bool,
    "autoscalerOptions": dict,
    "headGroupSpec": dict,
    "workerGroupSpecs": list,
}
HEAD_FIELDS = {"rayStartParams": TEXT_MAP, "template": dict}
WORKER_FIELDS = {
    **HEAD_FIELDS,
    "groupName": str,
    "replicas": int,
    "minReplicas": int,
    "maxReplicas": int,
}
LONGEST_JOB_NAME = 47
"""KubeRay refuses a longer one: it appends to it."""


def mistakes(given: Mapping[str, Any], fields: Mapping[str, Any]) -> Iterator[str]:
    """Fields that the API does not have, and values of another type."""
    for name, value in given.items():
        kind = fields.get(name)
        if kind is None:
            yield f"{name} is unknown"
        elif kind == TEXT_MAP and not all(isinstance(text, str) for text in value.values()):
            yield f"{name} maps to more than text: {value}"
        elif kind != TEXT_MAP and type(value) is not kind:
            yield f"{name} is {value!r}"


def test_without_a_run_there_is_none_of_its_objects() -> None:
    everything = {"run": {"enabled": False, "id": "r", "config": {"versions": 2}, **EXTRA}}
    for values in ({}, everything, {"run": None}):
        assert "RayJob" not in render(values).kinds()
        assert "PersistentVolumeClaim" not in render(values).kinds()
    added = set(run().kinds()) - set(render({}).kinds())
    assert added == {"RayJob", "PersistentVolumeClaim"}


@pytest.mark.parametrize("major", HELM_MAJORS)
@pytest.mark.parametrize("autoscaled", [False, True])
def test_fields_and_types_are_those_of_the_api(major: str, autoscaled: bool) -> None:
    rendered = run(major=major, rollouter={"maxReplicas": 3 if autoscaled else 1}, **EXTRA)
    assert rendered.one("RayJob")["apiVersion"] == "ray.io/v1"
    cluster = job(rendered)["rayClusterSpec"]
    assert [*mistakes(job(rendered), JOB_FIELDS), *mistakes(cluster, CLUSTER_FIELDS)] == []
    assert [*mistakes(cluster["headGroupSpec"], HEAD_FIELDS)] == []
    for group in cluster["workerGroupSpecs"]:
        assert [*mistakes(group, WORKER_FIELDS)] == []
    assert ("autoscalerOptions" in cluster, cluster.get("enableInTreeAutoscaling")) == (
        (True, True) if autoscaled else (False, None)
    )


def test_the_groups_are_one_trainer_and_the_rollouters_that_were_asked_for() -> None:
    rendered = run(rollouter={"gpus": 2, "minReplicas": 2, "maxReplicas": 5}, gpuResource="amd.com/gpu")
    trainer, rollouter = job(rendered)["rayClusterSpec"]["workerGroupSpecs"]
    assert [trainer[key] for key in ("replicas", "minReplicas", "maxReplicas")] == [1, 1, 1]
    assert [rollouter[key] for key in ("replicas", "minReplicas", "maxReplicas")] == [2, 2, 5]
    gpus = {
        name: each["resources"]["limits"].get("amd.com/gpu") for name, each in containers(rendered).items()
    }
    assert gpus == {"submitter": None, "head": None, "trainer": 1, "rollouter": 2}
    assert settings(rendered)["rollouters"] == 10
    assert settings(rendered)["start_timeout_seconds"] == 1800
    assert "start_timeout_seconds" not in settings(run())


@pytest.mark.parametrize(("gpus", "shares"), [(0, (0, 0)), (1, (1, 1))])
def test_actors_ask_for_what_their_nodes_have(gpus: int, shares: tuple[int, int]) -> None:
    """KubeRay hands `resources` to a shell, so that Ray sees what is between the outer quotes."""
    rendered = run(trainer={"gpus": gpus}, rollouter={"gpus": gpus, "minReplicas": 3, "maxReplicas": 3})
    resources = settings(rendered)["resources"]
    assert (resources["trainer_gpus"], resources["rollouter_gpus"]) == shares
    on_nodes: dict[str, int] = {}
    for group in job(rendered)["rayClusterSpec"]["workerGroupSpecs"]:
        on_nodes |= json.loads(json.loads(group["rayStartParams"]["resources"]))
    assert on_nodes == {resources["trainer_node"]: 1, resources["rollouter_node"]: 1}
    assert json.loads(job(rendered)["entrypointResources"]).keys() == {resources["trainer_node"]}
    assert settings(rendered)["rollouters"] == 3


def test_the_settings_are_taken_by_the_runtime(tmp_path: Path) -> None:
    """As they are rendered, and those of the user win."""
    config = {
        "versions": 7,
        "optimizer": {"learning_rate": 1e-7},
        "rollouters": 2,
        "telemetry": {"buffer_spans": 9},
    }
    rendered = run(id="sort-7", config=config)
    file = tmp_path / "config.json"
    file.write_text(json.dumps(settings(rendered)))
    loaded = load_config(file=file)
    assert (loaded.run_id, loaded.versions, loaded.rollouters) == ("sort-7", 7, 2)
    assert loaded.optimizer.learning_rate == 1e-7
    assert loaded.telemetry.endpoints == (f"http://{FULLNAME}.{NAMESPACE}.svc:4318",)
    assert loaded.telemetry.buffer_spans == 9
    assert job(rendered)["entrypoint"].split() == [
        "asyncrl",
        "run",
        "--config",
        "/etc/asyncrl/run/config.json",
    ]


def test_null_in_the_settings_or_for_who_is_asked_stands_for_nothing_given() -> None:
    config = {"versions": None, "run_id": None, "optimizer": {"learning_rate": None, "total_steps": 9}}
    expected = settings(run()) | {"optimizer": {"total_steps": 9}}
    for auth in (None, {"insecure": None}):
        assert settings(run(config=config, chart={"auth": auth})) == expected


def test_a_finished_run_leaves_the_cluster_after_its_time_and_a_failed_one_is_not_repeated() -> None:
    spec = job(run(ttlSecondsAfterFinished=60))
    assert (spec["shutdownAfterJobFinishes"], spec["ttlSecondsAfterFinished"]) == (True, 60)
    assert spec["backoffLimit"] == 0


@pytest.mark.parametrize("major", HELM_MAJORS)
def test_c76_large_numbers_stay_integers_and_names_of_digits_stay_text(major: str) -> None:
    steps = 20_000_000
    said = f"run.config.optimizer.total_steps={steps}"
    for option in (("--set", said), ("--set-json", said)):
        rendered = run(*option, "--set-string", "run.id=20260101", major=major)
        assert "e+" not in rendered.text
        assert settings(rendered)["optimizer"]["total_steps"] == steps
        assert settings(rendered)["run_id"] == "20260101"
        assert job(rendered)["metadata"] == {"run": "20260101"}
    as_values = run(config={"optimizer": {"total_steps": steps}}, ttlSecondsAfterFinished=steps, major=major)
    assert "e+" not in as_values.text
    assert settings(as_values)["optimizer"]["total_steps"] == steps
    assert job(as_values)["ttlSecondsAfterFinished"] == steps


def test_c79_another_setting_is_another_pod_and_a_new_chart_is_not(tmp_path: Path) -> None:
    before = job(run(id="r"))
    assert job(run(id="r", config={"versions": 3})) != before
    newer = copy_chart(tmp_path)
    chart_file = newer / "Chart.yaml"
    text = chart_file.read_text()
    chart_file.write_text(re.sub(r"^version: .*$", "version: 9.9.9", text, flags=re.MULTILINE))
    bumped = render({"run": {"enabled": True, "id": "r"}}, chart=newer)
    assert job(bumped) == before
    thresholds = run(id="r", chart={"dashboards": {"enabled": True}, "serviceMonitor": {"enabled": True}})
    assert job(thresholds) == before


def test_another_run_is_another_job_with_a_name_that_kuberay_takes() -> None:
    names = {}
    for name in ("a", "A.b_c", "x" * 64):
        rendered = run(id=name, chart={"fullnameOverride": "f" * 60})
        names[name] = rendered.one("RayJob")["metadata"]["name"]
        assert settings(rendered)["run_id"] == name
    assert len(set(names.values())) == 3
    for name in names.values():
        assert len(name) <= LONGEST_JOB_NAME
        assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name)
    assert settings(run())["run_id"] == "rel"


def test_the_notes_name_the_job_whose_log_is_the_output_of_the_run() -> None:
    options = ("--namespace", NAMESPACE, "--dry-run=client", "--set", "run.enabled=true,run.id=sort-7")
    said = run_helm(HELM_MAJORS[-1], "install", RELEASE, str(CHART), *options).stdout
    assert f"logs --follow job/{run(id='sort-7').one('RayJob')['metadata']['name']}" in said


def test_the_version_of_ray_is_the_one_that_the_image_has() -> None:
    pin = re.search(r"^ray==(\S+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert pin is not None
    assert job(run())["rayClusterSpec"]["rayVersion"] == pin[1]


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"rollouters": 2}, "rollouters"),
        ({"id": "a b"}, "id"),
        ({"trainer": {"gpus": 2}}, "gpus"),
        ({"rollouter": {"minReplicas": 0}}, "minReplicas"),
        ({"storage": {"accessMode": "Often"}}, "accessMode"),
        ({"rollouter": {"minReplicas": 3, "maxReplicas": 2}}, "minReplicas must not be above"),
        ({"config": {"run_id": "x"}}, "run.config must not have run_id, got x: name the run by run.id"),
    ],
)
def test_a_mistake_is_refused_by_name(values: dict[str, Any], named: str) -> None:
    assert named in refusal({"run": {"enabled": True, **values}})
