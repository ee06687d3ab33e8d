"""docs/kubernetes.md: its files are taken by helm and Kubernetes, and what they set lets a trainer in."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.exporter.conftest import StartExporter, exporters
from tests.helm.chart import NEWEST_KUBERNETES, ROOT, render
from tests.helm.test_cases import pod_specs
from tests.integration.test_wire_example import LOSSES, run_example, sealed_losses
from tests.web_config import token_digest, write_web_config

PAGE = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
MOST_COMMANDS = 5
TOKEN = "a-token-of-the-chart"


def files() -> dict[str, Any]:
    """The YAML on the page by the name in its first line."""
    blocks = re.findall(r"^```yaml\n# (\S+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return {name: yaml.safe_load(text) for name, text in blocks}


def variables(container: dict[str, Any], known: dict[str, str]) -> dict[str, str]:
    """The environment of a container as Kubernetes makes it: `$(NAME)` is a variable above."""
    made = dict(known)
    for each in container["env"]:
        if "value" in each:
            made[each["name"]] = re.sub(r"\$\((\w+)\)", lambda name: made[name[1]], each["value"])
    return made


@pytest.fixture
def start_exporter(tmp_path: Path) -> Iterator[StartExporter]:
    yield from exporters(tmp_path)


def test_a_board_is_at_most_five_commands_away() -> None:
    for heading in ("From kube-prometheus-stack to a board", "From a trainer that speaks OTLP to a board"):
        section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
        (commands,) = re.findall(r"^```bash\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
        assert 0 < len(commands.splitlines()) <= MOST_COMMANDS


def test_the_values_of_the_page_give_what_the_stack_finds() -> None:
    rendered = render(files()["asyncrl.yml"], release="asyncrl-exporter", namespace="rl")
    for kind in ("ServiceMonitor", "PrometheusRule"):
        assert rendered.one(kind)["metadata"]["labels"]["release"] == "kps"
    service = rendered.one("Service", "asyncrl-exporter")
    address = f"http://{service['metadata']['name']}.rl.svc:4318"
    assert [port["port"] for port in service["spec"]["ports"]] == [9810, 4318]
    assert address in PAGE
    assert rendered.one("Secret")["metadata"]["name"] == "asyncrl-exporter-web-config"


def test_on_openshift_the_cluster_says_who_a_pod_runs_as() -> None:
    rendered = render(files()["openshift.yml"] | {"run": {"enabled": True}})
    assert {"ServiceMonitor", "PrometheusRule", "NetworkPolicy"} < set(rendered.kinds())
    for spec in pod_specs(rendered.objects):
        assert not {"runAsUser", "runAsGroup", "fsGroup"} & set(spec["securityContext"])
        assert spec["securityContext"]["runAsNonRoot"] is True


def test_the_run_of_the_page_is_one_of_the_chart() -> None:
    (flags,) = re.findall(r"--set (run\.\S+)", PAGE.split("## A training run on KubeRay")[1].split("```")[1])
    rendered = render({}, "--set", flags, release="asyncrl-exporter", namespace="rl")
    assert rendered.one("RayJob")["spec"]["metadata"] == {"run": "sort-7"}


def test_the_job_of_the_page_sends_what_wire_md_promises(
    start_exporter: StartExporter, tmp_path: Path
) -> None:
    """The example under the environment that the Job gives it, into an exporter that knows the token."""
    job = files()["job.yml"]
    kubernetes_validate.validate(job, NEWEST_KUBERNETES, strict=True)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    (trainer,) = files()["trainer.yml"]["spec"]["template"]["spec"]["containers"]
    assert [each for each in trainer["env"] if each["name"] != "OTEL_RESOURCE_ATTRIBUTES"] == container["env"]

    web_config = write_web_config(tmp_path / "ingest.yml", bearer_tokens={"ingest": token_digest(TOKEN)})
    exporter = start_exporter("--otlp-web-config", str(web_config))
    given = variables(container, {"ASYNCRL_TOKEN": TOKEN})
    assert given.pop("OTEL_EXPORTER_OTLP_ENDPOINT") == "http://asyncrl-exporter.rl.svc:4318"
    run_example(tmp_path, exporter.otlp, **given)
    assert sealed_losses(exporter) == LOSSES
