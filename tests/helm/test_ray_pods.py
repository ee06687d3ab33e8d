"""The pods of the training run on KubeRay: each is one for Kubernetes, and has what its part of the run needs."""

from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.helm.chart import CHART, FULLNAME, NAMESPACE, NEWEST_KUBERNETES, OLDEST_KUBERNETES, render
from tests.helm.ray_job import EXTRA, containers, job, run, settings, templates


@pytest.mark.parametrize("kubernetes", [OLDEST_KUBERNETES, NEWEST_KUBERNETES])
def test_every_pod_is_one_for_kubernetes(kubernetes: str) -> None:
    rendered = render({}, "--values", str(CHART / "ci" / "run-values.yaml"))
    for name, template in {**templates(rendered), **templates(run(**EXTRA))}.items():
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, **template}
        kubernetes_validate.validate(pod, kubernetes, strict=True)


def test_telemetry_goes_to_every_exporter_with_its_token_and_authority() -> None:
    chart = {"replicas": 2, "tls": {"existingSecret": "rl-tls"}}
    rendered = run(chart=chart)
    telemetry = settings(rendered)["telemetry"]
    pods = f"{FULLNAME}-pods.{NAMESPACE}.svc:4318"
    assert telemetry["endpoints"] == [f"https://{FULLNAME}-{ordinal}.{pods}" for ordinal in (0, 1)]
    files = {telemetry["token_file"], telemetry["ca_file"]}
    for name in ("trainer", "rollouter"):
        (mount,) = [
            each for each in containers(rendered)[name]["volumeMounts"] if each["name"] == "telemetry"
        ]
        (volume,) = [
            each for each in templates(rendered)[name]["spec"]["volumes"] if each["name"] == "telemetry"
        ]
        items = [(each["secret"]["name"], each["secret"]["items"]) for each in volume["projected"]["sources"]]
        assert [name for name, _ in items] == [f"{FULLNAME}-web-config", "rl-tls"]
        assert {f"{mount['mountPath']}/{item['path']}" for _, each in items for item in each} == files
    open_to_all = run(chart={"auth": {"insecure": True}})
    assert settings(open_to_all)["telemetry"].keys() == {"endpoints"}
    assert "telemetry" not in yaml.safe_dump(templates(open_to_all))


def test_only_the_trainer_has_the_volume_and_it_outlives_the_release() -> None:
    rendered = run(storage={"size": "5Gi", "storageClass": "fast", "accessMode": "ReadWriteMany"})
    claim = rendered.one("PersistentVolumeClaim")
    assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert claim["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "5Gi"}},
    }
    kubernetes_validate.validate(claim, NEWEST_KUBERNETES, strict=True)
    mounted = {
        name: [each["mountPath"] for each in container["volumeMounts"] if each["name"] == "runs"]
        for name, container in containers(rendered).items()
    }
    assert mounted == {
        "submitter": [],
        "head": [],
        "trainer": [settings(rendered)["runs_dir"]],
        "rollouter": [],
    }
    own = run(storage={"existingClaim": "mine"})
    assert "PersistentVolumeClaim" not in own.kinds()
    volumes = templates(own)["trainer"]["spec"]["volumes"]
    assert {"name": "runs", "persistentVolumeClaim": {"claimName": "mine"}} in volumes


def test_a_variable_of_yours_wins_over_the_chart_s_and_stands_there_once() -> None:
    variable = {"name": "RAY_JOB_STOP_WAIT_TIME_S", "value": "300"}
    for name, container in containers(run(extraEnv=[variable])).items():
        names = [each["name"] for each in container["env"]]
        assert len(set(names)) == len(names) == 2, name
        assert variable in container["env"]


def test_probes_ask_ray_and_never_how_far_training_is() -> None:
    """The path is Ray's health check of a node; how patient they are is no matter of the run's settings."""
    slow = run(config={"versions": 1_000_000, "steps_per_version": 1000})
    for name in ("head", "trainer", "rollouter"):
        container = containers(slow)[name]
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert container[probe] == containers(run())[name][probe]
            assert container[probe]["httpGet"] == {"path": "/api/healthz", "port": 52365}
        assert "exec" not in yaml.safe_dump(container)


def test_c77_every_pod_of_the_run_is_admitted_by_the_restricted_standard() -> None:
    for name, template in templates(run(rollouter={"maxReplicas": 2})).items():
        security = template["spec"]["securityContext"]
        assert security["runAsNonRoot"] is True
        assert security["runAsUser"] > 0
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        (container,) = template["spec"]["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"]
        assert {"name": "tmp", "emptyDir": {}} in template["spec"]["volumes"]
        # The autoscaler, beside the head, is what asks Kubernetes for pods.
        assert template["spec"].get("automountServiceAccountToken", True) is (name == "head")
    options = job(run(rollouter={"maxReplicas": 2}))["rayClusterSpec"]["autoscalerOptions"]
    assert options["securityContext"]["readOnlyRootFilesystem"] is True
    assert templates(run())["head"]["spec"]["automountServiceAccountToken"] is False


@pytest.mark.parametrize("count", [0, 1, 3])
def test_c74_any_number_of_entries_is_rendered_where_it_belongs(count: int) -> None:
    place = {
        "nodeSelector": {f"key-{number}": f"value: {number}" for number in range(count)},
        "tolerations": [{"key": f"key-{number}", "operator": "Exists"} for number in range(count)],
        "affinity": {"nodeAffinity": {}} if count else {},
    }
    groups: dict[str, Any] = dict.fromkeys(("head", "trainer", "rollouter", "submitter"), place)
    secrets = [{"name": f"pull-{number}"} for number in range(count)]
    rendered = run(chart={"imagePullSecrets": secrets}, **groups)
    for template in templates(rendered).values():
        spec = template["spec"]
        assert {key: spec.get(key, type(value)()) for key, value in place.items()} == place
        assert spec.get("imagePullSecrets", []) == secrets


def test_what_is_extra_is_in_every_pod_of_the_cluster() -> None:
    rendered = run(**EXTRA)
    assert rendered.one("RayJob")["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "gpus"
    for name, template in templates(rendered).items():
        (container,) = template["spec"]["containers"]
        assert EXTRA["extraEnv"][0] in container["env"]
        assert container["envFrom"] == EXTRA["extraEnvFrom"]
        if name != "submitter":
            assert EXTRA["extraVolumes"][0] in template["spec"]["volumes"]
            assert EXTRA["extraVolumeMounts"][0] in container["volumeMounts"]
            assert template["metadata"]["annotations"]["note"] == 'a: "b"'
            assert template["spec"]["priorityClassName"] == "training"


def test_no_service_of_the_exporter_selects_a_pod_of_the_run() -> None:
    rendered = run()
    for service in rendered.all("Service"):
        selector = service["spec"]["selector"]
        for template in templates(rendered).values():
            assert not selector.items() <= template["metadata"]["labels"].items()


def test_a_network_policy_admits_the_pods_of_the_run_whatever_other_namespaces_may_send() -> None:
    policy = {"enabled": True, "ingestNamespaces": ["elsewhere"]}
    rendered = run(chart={"networkPolicy": policy})
    ingest = rendered.one("NetworkPolicy")["spec"]["ingress"][0]
    assert [port["port"] for port in ingest["ports"]] == ["otlp"]
    (selector,) = [each["podSelector"]["matchLabels"] for each in ingest["from"] if "podSelector" in each]
    for template in templates(rendered).values():
        assert selector.items() <= template["metadata"]["labels"].items()
