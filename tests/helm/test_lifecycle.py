"""Install, upgrade, rollback and uninstall by real helm, against a store of objects in place of an API server."""

import base64
import json
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helm.chart import CHART, FULLNAME, HELM_MAJORS, NAMESPACE, RELEASE, Object, run_helm
from tests.helm.object_store import ObjectStore, merged, object_store

SECRET = f"{FULLNAME}-web-config"


class Cluster:
    """The release in its namespace."""

    def __init__(self, store: ObjectStore, major: str, directory: Path) -> None:
        self.store = store
        self._major = major
        store.write_kubeconfig(directory / "kubeconfig")
        self._environment = {
            "KUBECONFIG": str(directory / "kubeconfig"),
            "KUBECACHEDIR": str(directory / "kube-cache"),
            "HELM_CACHE_HOME": str(directory / "helm-cache"),
        }

    def helm(self, verb: str, *arguments: str, fails: bool = False) -> None:
        where = ("--namespace", NAMESPACE)
        run = run_helm(self._major, verb, RELEASE, *arguments, *where, environment=self._environment)
        assert (run.returncode != 0) == fails, run.stderr

    def install(self, verb: str = "install", **values: Any) -> None:
        said = ["--set-json", ",".join(f"{name}={json.dumps(value)}" for name, value in values.items())]
        self.helm(verb, str(CHART), *(said if values else []))

    def upgrade(self, **values: Any) -> None:
        self.install("upgrade", **values)

    def kept(self, kind: str, name: str = FULLNAME) -> Object:
        found = self.store.get(kind, name)
        assert found is not None, name
        return found

    @property
    def token(self) -> str:
        """That of the Secret, by which both files know their senders."""
        data = {
            name: base64.b64decode(text).decode()
            for name, text in self.kept("Secret", SECRET)["data"].items()
        }
        digest = sha256(data["token"].encode()).hexdigest()
        for file in ("ingest.yml", "scrape.yml"):
            assert yaml.safe_load(data[file])["bearer_tokens"] == {"ingest": digest}
        return data["token"]

    @property
    def pod(self) -> Object:
        """The template of the pods: another one rolls them."""
        template: Object = self.kept("StatefulSet")["spec"]["template"]
        return template


@pytest.fixture(params=HELM_MAJORS)
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    with object_store() as store:
        yield Cluster(store, request.param, tmp_path)


def test_a_token_outlives_upgrades_rollbacks_and_the_release(cluster: Cluster) -> None:
    cluster.install()
    token, pod = cluster.token, cluster.pod
    assert len(token) == 48
    cluster.upgrade(config={"grace_seconds": 20})
    assert cluster.token == token
    assert cluster.pod != pod
    cluster.helm("rollback", "1")
    assert cluster.token == token
    assert cluster.pod == pod
    cluster.helm("uninstall")
    assert list(cluster.store.objects) == [f"/api/v1/namespaces/{NAMESPACE}/secrets/{SECRET}"]
    cluster.install()
    assert cluster.token == token


def test_a_new_token_is_a_deleted_secret_and_rolls_no_pod(cluster: Cluster) -> None:
    cluster.install()
    token, pod = cluster.token, cluster.pod
    cluster.store.objects.pop(f"/api/v1/namespaces/{NAMESPACE}/secrets/{SECRET}")
    cluster.upgrade()
    assert cluster.token != token
    assert cluster.pod == pod


def test_a_token_outlives_other_ways_to_guard(cluster: Cluster) -> None:
    cluster.install()
    token = cluster.token
    tls = {"existingSecret": "certificate"}
    ways: tuple[dict[str, Any], ...] = (
        {"auth": {"existingSecret": "mine"}},
        {"auth": {"insecure": True}, "tls": tls},
    )
    for values in ways:
        cluster.upgrade(**values)
        cluster.upgrade(tls=tls)
        assert cluster.token == token, values


def test_a_token_of_yours_in_the_secret_is_taken_over_by_the_next_upgrade(cluster: Cluster) -> None:
    cluster.install()
    for own in ("20260101", "a: b # c", "of-echo\n"):
        cluster.kept("Secret", SECRET)["data"]["token"] = base64.b64encode(own.encode()).decode()
        cluster.upgrade()
        assert cluster.token == own.strip()


def test_an_installed_volume_keeps_its_access_mode(cluster: Cluster) -> None:
    cluster.install()
    (claim,) = cluster.kept("StatefulSet")["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["accessModes"] == ["ReadWriteOncePod"]
    claim["spec"]["accessModes"] = ["ReadWriteOnce"]  # as the cluster was too old for the other
    cluster.upgrade(config={"grace_seconds": 20})
    (claim,) = cluster.kept("StatefulSet")["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]


def test_helm_test_gives_its_pod_the_script_and_leaves_the_pod_to_be_read(cluster: Cluster) -> None:
    script = f"{FULLNAME}-test"
    found: list[bool] = []

    def end_as(phase: str) -> Callable[[Object], str]:
        def end(pod: Object) -> str:
            found.append(cluster.store.get("ConfigMap", script) is not None)
            return phase

        return end

    cluster.install()
    cluster.store.pod_phase = end_as("Failed")
    cluster.helm("test", "--timeout", "20s", fails=True)
    assert cluster.store.get("Pod", script) is not None
    cluster.store.pod_phase = end_as("Succeeded")
    cluster.helm("test", "--timeout", "20s")  # takes the place of the one before
    assert cluster.store.get("Pod", script) is not None
    assert cluster.store.get("ConfigMap", script) is None
    assert found == [True, True]


def test_the_store_merges_as_the_patches_of_helm_mean_it() -> None:
    old = {
        "a": 1,
        "b": {"c": 1, "d": 2},
        "list": [{"name": "x", "v": 1}, {"name": "y", "v": 2}],
        "plain": [1],
    }
    patch = {
        "b": {"c": None, "e": 3},
        "list": [{"name": "y", "v": 3}],
        "plain": [2],
        "$setElementOrder/list": [],
        "new": {"f": None, "g": 1},
    }
    assert merged(old, patch) == {
        "a": 1,
        "b": {"d": 2, "e": 3},
        "list": [{"name": "x", "v": 1}, {"name": "y", "v": 3}],
        "plain": [2],
        "new": {"g": 1},
    }
