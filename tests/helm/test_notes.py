"""What an install prints, and what a packed chart carries."""

import ast
import json
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.helm.chart import CHART, FULLNAME, HELM_MAJORS, NAMESPACE, render, run_helm

LARGEST_RELEASE_BYTES = 1024 * 1024
"""Helm keeps a release, the packed chart and what it rendered, in one Secret."""
IN_THE_IMAGE = {"opentelemetry", "requests"}
"""Packages that the exporter itself needs, of those that `helm test` uses."""


def notes(**values: Any) -> str:
    # helm 3 renders notes for a cluster only.
    arguments = ["install", "rel", str(CHART), "--namespace", NAMESPACE, "--dry-run=client", "--values", "-"]
    run = run_helm("4", *arguments, stdin=json.dumps(values))
    assert run.returncode == 0, run.stderr
    return run.stdout.partition("\nNOTES:\n")[2]


def test_the_notes_lead_to_the_first_metric_the_address_and_the_token() -> None:
    said = notes()
    assert f"helm --namespace {NAMESPACE} test rel --logs" in said
    assert f"http://{FULLNAME}.{NAMESPACE}.svc:4318" in said
    assert f"get secret {FULLNAME}-web-config --output jsonpath='{{.data.token}}'" in said
    # Through the node, as a network policy admits no proxy of the API server.
    assert (
        f"port-forward service/{FULLNAME} 9810 &\n    curl --silent http://127.0.0.1:9810/metrics | grep"
        in said
    )
    assert "Nothing tells a Prometheus to scrape it yet" in said
    assert "persistence.enabled" not in said


def test_the_notes_name_each_of_two_exporters_and_what_is_missing() -> None:
    said = notes(
        replicas=2,
        tls={"existingSecret": "t"},
        auth={"existingSecret": "mine"},
        persistence={"enabled": False},
        serviceMonitor={"enabled": True},
    )
    assert [line.strip() for line in said.splitlines() if "https://" in line and ":4318" in line] == [
        f"https://{FULLNAME}-{number}.{FULLNAME}-pods.{NAMESPACE}.svc:4318" for number in (0, 1)
    ]
    assert "curl --silent --insecure https://127.0.0.1:9810/metrics | grep" in said
    assert "get secret mine" in said
    assert "a deleted pod takes the history along" in said
    assert "has no label of your Prometheus" in said
    assert "Nobody is asked who they are" in notes(auth={"insecure": True})


@pytest.mark.parametrize("major", HELM_MAJORS)
def test_a_packed_chart_renders_the_same_and_fits_a_release(major: str, tmp_path: Path) -> None:
    packed = run_helm(major, "package", str(CHART), "--destination", str(tmp_path))
    assert packed.returncode == 0, packed.stderr
    (archive,) = tmp_path.iterdir()
    with tarfile.open(archive) as members:
        names = {name.partition("/")[2] for name in members.getnames()}
    assert {"README.md", "values.schema.json", "files/rules.yaml", "files/round_trip.py"} <= names
    assert not any(name.startswith("ci/") for name in names)
    assert archive.stat().st_size < LARGEST_RELEASE_BYTES / 4
    everything = {"dashboards": {"enabled": True}, "prometheusRule": {"enabled": True}}
    rendered = render(everything, major=major, chart=archive)
    assert rendered.kinds() == render(everything, major=major).kinds()


def test_helm_test_needs_nothing_that_the_image_has_not() -> None:
    tree = ast.parse((CHART / "files" / "round_trip.py").read_text(encoding="utf-8"))
    imported = {
        (node.module or "").partition(".")[0] if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert imported - sys.stdlib_module_names == IN_THE_IMAGE
