"""The training run as the chart renders it, and where to find its parts."""

import json
from typing import Any

from tests.helm.chart import HELM_MAJORS, Object, Rendered, render

EXTRA: dict[str, Any] = {
    "extraEnv": [{"name": "PYTHONPATH", "value": "/environments"}],
    "extraEnvFrom": [{"secretRef": {"name": "tokens"}}],
    "extraVolumes": [{"name": "environments", "configMap": {"name": "environments"}}],
    "extraVolumeMounts": [{"name": "environments", "mountPath": "/environments"}],
    "podAnnotations": {"note": 'a: "b"'},
    "labels": {"kueue.x-k8s.io/queue-name": "gpus"},
    "priorityClassName": "training",
}


def run(*options: str, major: str = HELM_MAJORS[-1], **values: Any) -> Rendered:
    """The chart with a run of these values; those of the chart under `chart`."""
    chart = values.pop("chart", {})
    return render({**chart, "run": {"enabled": True, **values}}, *options, major=major)


def job(rendered: Rendered) -> Object:
    spec: Object = rendered.one("RayJob")["spec"]
    return spec


def settings(rendered: Rendered) -> dict[str, Any]:
    """The file that `asyncrl run` is started with."""
    (config_map,) = [each for each in rendered.all("ConfigMap") if "config.json" in each["data"]]
    loaded: dict[str, Any] = json.loads(config_map["data"]["config.json"])
    return loaded


def templates(rendered: Rendered) -> dict[str, Object]:
    """The pod templates by what they are for."""
    cluster = job(rendered)["rayClusterSpec"]
    workers = {group["groupName"]: group["template"] for group in cluster["workerGroupSpecs"]}
    head = cluster["headGroupSpec"]["template"]
    return {"submitter": job(rendered)["submitterPodTemplate"], "head": head, **workers}


def containers(rendered: Rendered) -> dict[str, Object]:
    return {name: template["spec"]["containers"][0] for name, template in templates(rendered).items()}
