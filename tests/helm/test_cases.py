"""What went wrong with charts in the field (C71 to C79), each with its right outcome."""

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from exporter.settings import load_settings
from tests.helm.chart import CI_VALUES, HELM_MAJORS, Object, copy_chart, render
from tests.prometheus import require_binary

CRD_GROUPS = ("monitoring.coreos.com", "cert-manager.io", "ray.io")
CRD_FLAGS: Mapping[str, tuple[dict[str, Any], list[str]]] = {
    "serviceMonitor": ({"serviceMonitor": {"enabled": True}}, ["ServiceMonitor"]),
    "podMonitor": ({"podMonitor": {"enabled": True}}, ["PodMonitor"]),
    "prometheusRule": ({"prometheusRule": {"enabled": True}}, ["PrometheusRule"]),
    "certManager": (
        {"tls": {"certManager": {"enabled": True, "issuerRef": {"name": "ca"}}}},
        ["Certificate"],
    ),
    "run": ({"run": {"enabled": True}}, ["RayJob"]),
}


def selected(selector: Mapping[str, str], objects: list[Object]) -> list[Object]:
    return [each for each in objects if selector.items() <= each["metadata"].get("labels", {}).items()]


@pytest.mark.parametrize(
    ("release", "values"),
    [
        ("foo", {}),
        ("my-exporter", {}),
        ("asyncrl-exporter", {"replicas": 2}),
        ("z9", {"fullnameOverride": "telemetry"}),
    ],
)
def test_c71_a_monitor_leads_to_one_port_of_the_exporters_pods(release: str, values: dict[str, Any]) -> None:
    """ServiceMonitor -> Service -> pod -> port, and PodMonitor -> pod -> port, by labels and names alone."""
    common = values | {"networkPolicy": {"enabled": True}}
    monitor: dict[str, Any] = {"enabled": True, "labels": {"release": "prom"}, "namespace": "elsewhere"}
    rendered = render(common | {"serviceMonitor": monitor}, release=release)
    found = rendered.one("ServiceMonitor")
    assert found["metadata"]["labels"]["release"] == "prom"
    assert found["metadata"]["namespace"] == "elsewhere"
    (namespace,) = found["spec"]["namespaceSelector"]["matchNames"]
    (service,) = selected(found["spec"]["selector"]["matchLabels"], rendered.all("Service"))
    assert service["metadata"]["namespace"] == namespace
    (endpoint,) = found["spec"]["endpoints"]
    (port,) = [port for port in service["spec"]["ports"] if port["name"] == endpoint["port"]]

    pods = [rendered.pod(), rendered.test_pod()]
    assert selected(service["spec"]["selector"], pods) == [rendered.pod()]
    container_ports = {port["name"]: port["containerPort"] for port in rendered.container()["ports"]}
    assert rendered.settings()["listen"].endswith(f":{container_ports[port['targetPort']]}")

    rendered = render(common | {"podMonitor": monitor}, release=release)
    found = rendered.one("PodMonitor")
    (endpoint,) = found["spec"]["podMetricsEndpoints"]
    assert selected(found["spec"]["selector"]["matchLabels"], pods) == [pods[0]]
    assert endpoint["port"] in container_ports


@pytest.mark.parametrize("major", HELM_MAJORS)
def test_c72_braces_in_alerts_reach_prometheus(major: str, tmp_path: Path) -> None:
    alert = {
        "alert": "Ours",
        "expr": "asyncrl_run_info == 1",
        "annotations": {
            "summary": "{{ $labels.run }} at {{ $value | humanizePercentage }}",
            "more": "{{`x`}}",
        },
    }
    values = {"prometheusRule": {"enabled": True, "extraGroups": [{"name": "ours", "rules": [alert]}]}}
    spec = render(values, major=major).one("PrometheusRule")["spec"]
    assert spec["groups"][-1]["rules"] == [alert]
    texts = [
        text
        for group in spec["groups"]
        for rule in group["rules"]
        for text in rule.get("annotations", {}).values()
    ]
    assert sum("{{ $labels.run }}" in text for text in texts) > 30
    rules = tmp_path / "rules.yaml"
    rules.write_text(yaml.dump(spec, Dumper=yaml.CSafeDumper), encoding="utf-8")
    check = subprocess.run(
        [require_binary("promtool"), "check", "rules", rules],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert check.returncode == 0, check.stdout + check.stderr
    manifest = {"kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"text": "{{ $labels.run }}"}}
    assert render({"extraManifests": [manifest]}, major=major).one("ConfigMap", "x") == manifest


@pytest.mark.parametrize("major", HELM_MAJORS)
def test_c73_a_bare_cluster_takes_the_defaults_and_an_explicit_true_always_renders(major: str) -> None:
    bare = render(major=major)
    assert [each["kind"] for each in bare.objects if each["apiVersion"].startswith(CRD_GROUPS)] == []
    for values, kinds in CRD_FLAGS.values():
        on = render(values, major=major)  # without --api-versions, as `helm template` is used
        found = [each["kind"] for each in on.objects if each["apiVersion"].partition("/")[0] in CRD_GROUPS]
        assert found == kinds
        off = yaml.safe_load(yaml.safe_dump(values).replace("enabled: true", "enabled: false"))
        assert render(off, major=major).kinds() == bare.kinds()


def entries(count: int) -> dict[str, Any]:
    """Every list and map that is handed on to pods, with that many entries."""
    numbers = range(count)
    return {
        "nodeSelector": {f"pool-{number}": "yes" for number in numbers},
        "tolerations": [{"key": f"k{number}", "operator": "Exists"} for number in numbers],
        "imagePullSecrets": [{"name": f"registry-{number}"} for number in numbers],
        "affinity": {f"podAffinity{number}": {"a": [{"b": 1}]} for number in numbers},
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": f"zone-{number}"} for number in numbers],
        "podAnnotations": {f"note-{number}": 'a: "quoted" # hash' for number in numbers},
        "podLabels": {f"team-{number}": "00420" for number in numbers},
        "extraEnv": [{"name": f"N{number}", "value": "true"} for number in numbers],
        "extraEnvFrom": [{"secretRef": {"name": f"s{number}"}} for number in numbers],
        "extraVolumes": [{"name": f"extra-{number}", "emptyDir": {}} for number in numbers],
        "extraVolumeMounts": [{"name": f"extra-{number}", "mountPath": f"/x/{number}"} for number in numbers],
    }


@pytest.mark.parametrize("major", HELM_MAJORS)
@pytest.mark.parametrize("count", [0, 1, 3])
def test_c74_any_number_of_entries_stands_where_it_belongs(count: int, major: str) -> None:
    values = entries(count)
    bare, rendered = render(major=major), render(values, major=major)
    for pod, plain in ((rendered.pod(), bare.pod()), (rendered.test_pod(), bare.test_pod())):
        for name in ("nodeSelector", "tolerations", "imagePullSecrets"):
            assert pod["spec"].get(name) == (values[name] or None), name
            assert name not in plain["spec"]
    spec, container = rendered.pod()["spec"], rendered.container()
    for name in ("affinity", "topologySpreadConstraints"):
        assert spec.get(name) == (values[name] or None)
    assert spec["volumes"] == bare.pod()["spec"]["volumes"] + values["extraVolumes"]
    assert container["volumeMounts"] == bare.container()["volumeMounts"] + values["extraVolumeMounts"]
    assert container.get("env") == (values["extraEnv"] or None)
    assert container.get("envFrom") == (values["extraEnvFrom"] or None)
    for part, name in (("annotations", "podAnnotations"), ("labels", "podLabels")):
        assert rendered.pod()["metadata"][part] == bare.pod()["metadata"][part] | values[name]


SETTINGS = {
    "max_body_bytes": 8388608,
    "series_budget": 1048576,
    "retention_days": 0.5,
    "grace_seconds": 100000,
}
NUMBERS = {
    "config": SETTINGS,
    "ports": {"metrics": 29810, "otlp": 24318},
    "serviceMonitor": {"enabled": True, "limits": {"sampleLimit": 12345678}},
    "podSecurityContext": {"runAsUser": 1000660000},
    "podLabels": {"run": "20260101", "flag": "true"},
}


@pytest.mark.parametrize("major", HELM_MAJORS)
@pytest.mark.parametrize("path", ["file", "json", "set"])
def test_c76_numbers_are_digits_on_every_path_and_texts_stay_texts(
    path: str, major: str, tmp_path: Path
) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(NUMBERS), encoding="utf-8")
    sets = [f"config.{name}={value}" for name, value in SETTINGS.items()]
    sets += ["ports.metrics=29810", "ports.otlp=24318", "serviceMonitor.limits.sampleLimit=12345678"]
    sets += ["serviceMonitor.enabled=true", "podSecurityContext.runAsUser=1000660000"]
    by_path: dict[str, tuple[dict[str, Any], list[str]]] = {
        "file": ({}, ["--values", str(file)]),
        "json": (NUMBERS, []),
        "set": ({}, ["--set", ",".join(sets), "--set-string", "podLabels.run=20260101,podLabels.flag=true"]),
    }
    values, options = by_path[path]
    rendered = render(values, *options, major=major)
    assert re.findall(r"\S*\de\+\d\S*", rendered.text) == []
    assert SETTINGS.items() <= rendered.settings().items()
    assert {"run": "20260101", "flag": "true"}.items() <= rendered.pod()["metadata"]["labels"].items()
    assert [port["containerPort"] for port in rendered.container()["ports"]] == [29810, 24318]
    assert rendered.one("ServiceMonitor")["spec"]["sampleLimit"] == 12345678
    assert rendered.pod()["spec"]["securityContext"]["runAsUser"] == 1000660000  # as OpenShift gives them out

    config = tmp_path / "exporter.yml"
    config.write_text(yaml.safe_dump(rendered.settings()), encoding="utf-8")
    loaded = load_settings(config, {}, {}).config
    assert {name: getattr(loaded, name) for name in SETTINGS} == SETTINGS


def pod_specs(node: Any) -> Iterator[Object]:
    """Every pod in a rendered object, however deep."""
    if isinstance(node, dict):
        if "containers" in node:
            yield node
        for value in node.values():
            yield from pod_specs(value)
    elif isinstance(node, list):
        for value in node:
            yield from pod_specs(value)


def violations(pod: Object) -> list[str]:
    """Of the restricted pod security standard, and of what this chart adds to it."""
    said = pod.get("securityContext", {})
    found = [f"volume {volume['name']}" for volume in pod.get("volumes", []) if not allowed(volume)]
    found += [name for name in ("hostNetwork", "hostPID", "hostIPC") if pod.get(name)]
    if pod.get("automountServiceAccountToken") is not False:
        found.append("token mounted")
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        context = said | container.get("securityContext", {})
        wrong = {
            "runAsNonRoot": context.get("runAsNonRoot") is not True,
            "no numeric user": not context.get("runAsUser"),
            "seccomp": context.get("seccompProfile", {}).get("type") != "RuntimeDefault",
            "escalation": context.get("allowPrivilegeEscalation") is not False,
            "capabilities": context.get("capabilities") != {"drop": ["ALL"]},
            "root file system": context.get("readOnlyRootFilesystem") is not True,
            "privileged": bool(context.get("privileged")),
            "host port": any("hostPort" in port for port in container.get("ports", [])),
        }
        found += [f"{container['name']}: {name}" for name, is_wrong in wrong.items() if is_wrong]
    return found


def talks_to_kubernetes(ray_job: Object, pod: Object) -> bool:
    """Whether Ray's autoscaler, which adds pods, runs beside this head."""
    cluster = ray_job["spec"]["rayClusterSpec"]
    return bool(
        cluster.get("enableInTreeAutoscaling") and pod is cluster["headGroupSpec"]["template"]["spec"]
    )


def allowed(volume: Object) -> bool:
    kinds = {
        "configMap",
        "secret",
        "emptyDir",
        "persistentVolumeClaim",
        "projected",
        "downwardAPI",
        "ephemeral",
    }
    return set(volume) - {"name"} <= kinds


def test_c77_every_pod_is_admitted_by_restricted_and_has_what_it_writes_to() -> None:
    for path in CI_VALUES:
        rendered = render(yaml.safe_load(path.read_text(encoding="utf-8")))
        pods = list(pod_specs(rendered.objects))
        assert len(pods) >= 2
        for pod in pods:
            needs_token = any(talks_to_kubernetes(job, pod) for job in rendered.all("RayJob"))
            assert violations(pod) == (["token mounted"] if needs_token else []), path.name
    writable = {volume["name"] for volume in render().pod()["spec"]["volumes"] if "emptyDir" in volume}
    mounted = {mount["mountPath"]: mount for mount in render().container()["volumeMounts"]}
    assert mounted["/tmp"]["name"] in writable
    assert all(mount.get("readOnly") for path, mount in mounted.items() if path not in ("/data", "/tmp"))


def test_c79_a_change_of_the_settings_rolls_the_pods_and_nothing_else_does(tmp_path: Path) -> None:
    chart = copy_chart(tmp_path)
    before = render(chart=chart)
    assert render({"config": {"grace_seconds": 20}}, chart=chart).pod() != before.pod()

    (tmp_path / "next").mkdir()
    changed = copy_chart(tmp_path / "next")
    version = changed / "Chart.yaml"
    version.write_text(re.sub(r"(?m)^version: .*", "version: 0.9.0", version.read_text()), encoding="utf-8")
    board = next((changed / "files" / "dashboards").iterdir())
    board.write_text(board.read_text(encoding="utf-8").replace('"title"', '"Title"'), encoding="utf-8")
    after = render(
        {
            "dashboards": {"enabled": True},
            "prometheusRule": {"enabled": True, "thresholds": {}},
            "serviceMonitor": {"enabled": True},
            "networkPolicy": {"enabled": True},
        },
        chart=changed,
    )
    assert after.one("StatefulSet")["metadata"] != before.one("StatefulSet")["metadata"]
    assert after.pod() == before.pod()
    assert (
        after.one("Secret")["stringData"] != before.one("Secret")["stringData"]
    )  # followed without a restart
