"""The StatefulSet: a journal for each pod, settings that roll it, places to write and nothing else."""

from pathlib import Path

import pytest
import yaml

from tests.helm.chart import CI_VALUES, FULLNAME, OLDEST_KUBERNETES, refusal, render

SELECTORS = Path(__file__).with_name("selectors.yaml")


def test_each_exporter_has_a_volume_for_its_journal() -> None:
    values = {
        "replicas": 2,
        "persistence": {"size": "20Gi", "storageClass": "fast", "annotations": {"backup": "yes"}},
    }
    stateful_set = render(values).one("StatefulSet")
    (claim,) = stateful_set["spec"]["volumeClaimTemplates"]
    assert stateful_set["spec"]["replicas"] == 2
    assert claim["spec"] == {
        "accessModes": ["ReadWriteOncePod"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "20Gi"}},
    }
    assert claim["metadata"]["annotations"] == {"backup": "yes"}
    mounts = {mount["name"]: mount["mountPath"] for mount in render(values).container()["volumeMounts"]}
    assert mounts[claim["metadata"]["name"]] == render(values).settings()["data_dir"]


@pytest.mark.parametrize(
    ("options", "said", "mode"),
    [
        ((), "", "ReadWriteOncePod"),
        (("--kube-version", "1.29.0"), "", "ReadWriteOncePod"),
        (("--kube-version", "v1.29.3-gke.1200"), "", "ReadWriteOncePod"),
        (("--kube-version", f"{OLDEST_KUBERNETES}.0"), "", "ReadWriteOnce"),
        ((), "ReadWriteOnce", "ReadWriteOnce"),
    ],
)
def test_one_pod_alone_may_mount_it_where_the_cluster_has_that(
    options: tuple[str, ...], said: str, mode: str
) -> None:
    stateful_set = render({"persistence": {"accessMode": said}}, *options).one("StatefulSet")
    assert stateful_set["spec"]["volumeClaimTemplates"][0]["spec"]["accessModes"] == [mode]


def test_without_persistence_there_is_no_claim_and_the_notes_would_say_so() -> None:
    rendered = render({"persistence": {"enabled": False}})
    assert "volumeClaimTemplates" not in rendered.one("StatefulSet")["spec"]
    volumes = {volume["name"]: volume for volume in rendered.pod()["spec"]["volumes"]}
    assert volumes["journal"] == {"name": "journal", "emptyDir": {}}


def test_every_mount_has_its_volume_and_every_volume_is_mounted() -> None:
    for values in ({}, *(yaml.safe_load(path.read_text(encoding="utf-8")) for path in CI_VALUES)):
        rendered = render(values)
        claims = rendered.one("StatefulSet")["spec"].get("volumeClaimTemplates", [])
        for pod, container, claimed in (
            (rendered.pod()["spec"], rendered.container(), [claim["metadata"]["name"] for claim in claims]),
            (rendered.test_pod()["spec"], rendered.test_pod()["spec"]["containers"][0], []),
        ):
            volumes = [volume["name"] for volume in pod["volumes"]] + claimed
            assert sorted(volumes) == sorted(mount["name"] for mount in container["volumeMounts"])
            mounted = [mount["mountPath"] for mount in container["volumeMounts"]]
            assert len(set(mounted)) == len(mounted)


def test_the_image_is_a_tag_or_a_digest() -> None:
    digest = "sha256:" + "a" * 64
    image = {"repository": "registry.example/exporter", "tag": "1.2.3", "pullPolicy": "Always"}
    tagged = render({"image": image})
    assert tagged.container()["image"] == "registry.example/exporter:1.2.3"
    assert tagged.container()["imagePullPolicy"] == "Always"
    pinned = render({"image": image | {"digest": digest}})
    assert pinned.container()["image"] == f"registry.example/exporter@{digest}"
    for rendered in (tagged, pinned):
        assert rendered.test_pod()["spec"]["containers"][0]["image"] == rendered.container()["image"]
    assert "image.digest" in refusal({"image": {"digest": "latest"}}).replace("/", ".")


def test_resources_are_set_and_can_be_others() -> None:
    assert render().container()["resources"]["requests"] == {"cpu": "250m", "memory": "256Mi"}
    resources = {"limits": {"cpu": 1, "memory": "2Gi"}}
    assert render({"resources": resources}).container()["resources"]["limits"] == {"cpu": 1, "memory": "2Gi"}
    assert "resources" not in render({"resources": None}).container()


def test_null_leaves_the_numbers_to_a_cluster_that_gives_them_out() -> None:
    numbers = {"runAsUser": None, "runAsGroup": None, "fsGroup": None}
    rendered = render({"podSecurityContext": numbers})
    for pod in (rendered.pod(), rendered.test_pod()):
        assert pod["spec"]["securityContext"] == {
            "runAsNonRoot": True,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        }


def test_two_exporters_avoid_one_node_unless_told_where_to_be() -> None:
    assert "topologySpreadConstraints" not in render().pod()["spec"]
    (spread,) = render({"replicas": 2}).pod()["spec"]["topologySpreadConstraints"]
    assert spread["topologyKey"] == "kubernetes.io/hostname"
    labels = render({"replicas": 2}).pod()["metadata"]["labels"]
    assert spread["labelSelector"]["matchLabels"].items() <= labels.items()
    own = [{"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]
    assert (
        render({"replicas": 2, "topologySpreadConstraints": own}).pod()["spec"]["topologySpreadConstraints"]
        == own
    )


def test_nothing_of_the_pod_depends_on_variables_that_the_cluster_adds() -> None:
    for spec in (render().pod()["spec"], render().test_pod()["spec"]):
        assert spec["enableServiceLinks"] is False
        assert spec["automountServiceAccountToken"] is False


def test_probes_ask_what_needs_no_credentials() -> None:
    container = render().container()
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startup": "/healthz",
        "liveness": "/healthz",
        "readiness": "/readyz",
    }
    assert {probe["port"] for probe in probes.values()} == {"metrics"}
    assert {probe["scheme"] for probe in probes.values()} == {"HTTP"}


def test_a_stateful_set_and_what_hangs_on_its_name_fit_their_limits() -> None:
    for name in ("a" * 53, "a" * 51 + "-b"):
        rendered = render(release=name[:53])
        fullname = rendered.one("StatefulSet")["metadata"]["name"]
        assert len(fullname) <= 52
        assert not fullname.endswith("-")
        assert all(len(service["metadata"]["name"]) <= 63 for service in rendered.all("Service"))
    assert len(render({"fullnameOverride": "b" * 70}).one("StatefulSet")["metadata"]["name"]) == 52


def test_selectors_are_those_that_were_released() -> None:
    """They cannot change under an installed release: this file grows with new objects, and changes no other way."""
    rendered = render({"replicas": 2, "networkPolicy": {"enabled": True}})
    stateful_set = rendered.one("StatefulSet")["spec"]
    found = {
        "StatefulSet": {
            "selector": stateful_set["selector"],
            "serviceName": stateful_set["serviceName"],
            "podManagementPolicy": stateful_set["podManagementPolicy"],
            "volumeClaimTemplates": [
                {"name": claim["metadata"]["name"], "labels": claim["metadata"]["labels"]}
                for claim in stateful_set["volumeClaimTemplates"]
            ],
        },
        "Services": {
            service["metadata"]["name"]: service["spec"]["selector"] for service in rendered.all("Service")
        },
        "PodDisruptionBudget": rendered.one("PodDisruptionBudget")["spec"]["selector"],
        "NetworkPolicy": rendered.one("NetworkPolicy")["spec"]["podSelector"],
    }
    assert found == yaml.safe_load(SELECTORS.read_text(encoding="utf-8"))
    for selector in (stateful_set["selector"]["matchLabels"], *found["Services"].values()):
        assert selector.items() <= stateful_set["template"]["metadata"]["labels"].items()


def test_the_settings_are_mounted_where_the_command_looks() -> None:
    container = render().container()
    assert [*container["command"], *container["args"][:2]] == ["asyncrl", "exporter", "--config"]
    volumes = {volume["name"]: volume for volume in render().pod()["spec"]["volumes"]}
    mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"][1:]}
    directory, _, file = container["args"][2].rpartition("/")
    assert mounts[directory]["configMap"]["name"] == FULLNAME
    assert file in render().one("ConfigMap", FULLNAME)["data"]
