"""The chart as real helm renders it, once in a session for each set of values."""

import functools
import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm"
CI_VALUES = sorted((CHART / "ci").glob("*-values.yaml"))
HELM_MAJORS = ("3", "4")
RELEASE = "rel"
NAMESPACE = "telemetry"
OLDEST_KUBERNETES = "1.27"
NEWEST_KUBERNETES = "1.37"
FULLNAME = f"{RELEASE}-asyncrl-exporter"
WATCHDOG_SECONDS = 300

Object = dict[str, Any]


def require(target: str) -> Path:
    """A file that `make` fetches from npm. Where it cannot, the test is skipped, or fails in CI, which has npm."""
    path = ROOT / target
    if path.exists():
        return path
    made = subprocess.run(
        ["make", target], cwd=ROOT, capture_output=True, text=True, timeout=WATCHDOG_SECONDS, check=False
    )
    if made.returncode == 0:
        return path
    reason = f"make {target} failed, which needs npm and its registry: {made.stderr.strip()[-300:]}"
    if os.environ.get("ASYNCRL_REQUIRE_ALL"):
        pytest.fail(reason)
    pytest.skip(reason)


def run_helm(
    major: str, *arguments: str, stdin: str = "", environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """One call of helm, whatever it says, with these variables more."""
    return subprocess.run(
        [require(f".cache/helm/{major}/helm"), *arguments],
        input=stdin,
        env=os.environ | (environment or {}),
        capture_output=True,
        text=True,
        timeout=WATCHDOG_SECONDS,
        check=False,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Rendered:
    """What one `helm template` gave: its text, and the objects in it."""

    text: str
    objects: Sequence[Object]

    def kinds(self) -> list[str]:
        """Of all objects but those of `helm test`, sorted."""
        return sorted(each["kind"] for each in self.objects if not is_test(each))

    def all(self, kind: str) -> list[Object]:
        """The objects of this kind, but for those of `helm test`."""
        return [each for each in self.objects if each["kind"] == kind and not is_test(each)]

    def one(self, kind: str, name: str | None = None) -> Object:
        """The only object of this kind, or the one of this name."""
        (found,) = [each for each in self.all(kind) if name in (None, each["metadata"]["name"])]
        return found

    def settings(self) -> dict[str, Any]:
        """The configuration file of the exporter."""
        name = self.one("StatefulSet")["metadata"]["name"]
        loaded: dict[str, Any] = yaml.safe_load(self.one("ConfigMap", name)["data"]["exporter.yml"])
        return loaded

    def pod(self) -> Object:
        """The pod of the exporter, as its StatefulSet makes it."""
        template: Object = self.one("StatefulSet")["spec"]["template"]
        return template

    def container(self) -> Object:
        """The exporter's container."""
        (container,) = self.pod()["spec"]["containers"]
        assert isinstance(container, dict)
        return container

    def test_pod(self) -> Object:
        """The pod of `helm test`."""
        (pod,) = [each for each in self.objects if is_test(each) and each["kind"] == "Pod"]
        return pod


def is_test(rendered: Object) -> bool:
    """Whether only `helm test` makes this object."""
    return bool(rendered["metadata"].get("annotations", {}).get("helm.sh/hook") == "test")


def render(
    values: Mapping[str, Any] | None = None,
    *options: str,
    major: str = HELM_MAJORS[-1],
    release: str = RELEASE,
    namespace: str = NAMESPACE,
    chart: Path = CHART,
) -> Rendered:
    """The chart with these values, which reach helm as JSON, and further options of `helm template`."""
    return _render(json.dumps(values or {}), options, major, release, namespace, chart)


@functools.cache
def _render(
    values: str, options: tuple[str, ...], major: str, release: str, namespace: str, chart: Path
) -> Rendered:
    run = _template(values, options, major, release, namespace, chart)
    assert run.returncode == 0, run.stderr
    return Rendered(text=run.stdout, objects=objects_in(run.stdout))


def refusal(values: Mapping[str, Any], *options: str, major: str = HELM_MAJORS[-1]) -> str:
    """What helm says where it does not take these values."""
    run = _template(json.dumps(values), options, major, RELEASE, NAMESPACE, CHART)
    assert run.returncode != 0, run.stdout
    return run.stderr


def _template(
    values: str, options: Sequence[str], major: str, release: str, namespace: str, chart: Path
) -> subprocess.CompletedProcess[str]:
    where = ["template", release, str(chart), "--namespace", namespace, "--values", "-"]
    return run_helm(major, *where, *options, stdin=values)


def objects_in(text: str) -> list[Object]:
    """The objects of a rendered text. A key that stands twice in a map is a mistake, which PyYAML would hide."""
    return [each for each in yaml.load_all(text, Loader=_OnceLoader) if each is not None]


class _OnceLoader(yaml.CSafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        assert len(set(keys)) == len(keys), (sorted(keys), node.start_mark)
        return super().construct_mapping(node, deep)


def copy_chart(directory: Path) -> Path:
    """A chart to change."""
    return Path(shutil.copytree(CHART, directory / "helm"))
