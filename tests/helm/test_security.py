"""checkov over everything that the chart renders: what it still finds is explained here, finding by finding."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helm.chart import CI_VALUES, WATCHDOG_SECONDS, Object, render, require
from tests.helm.test_cases import pod_specs

pytestmark = [pytest.mark.peer, pytest.mark.timeout(900)]

EXPLAINED = {
    (
        "CKV_K8S_11",
        "Pod",
    ): "A limit on CPU throttles bursts, such as a start that replays; the request is a fair share",
    ("CKV_K8S_11", "StatefulSet"): "as for Pod",
    (
        "CKV_K8S_15",
        "Pod",
    ): "A tag here is a release and does not move; Always would make a start depend on the registry",
    ("CKV_K8S_15", "StatefulSet"): "as for Pod",
    ("CKV_K8S_43", "Pod"): "Who builds and pushes the image knows its digest: image.digest takes it",
    ("CKV_K8S_43", "StatefulSet"): "as for Pod",
    (
        "CKV_K8S_8",
        "Pod",
    ): "The pod of `helm test` ends by itself; those of a run are ended by its own watchdog",
    ("CKV_K8S_9", "Pod"): "Nobody connects to the pod of `helm test`",
    ("CKV_K8S_38", "Pod"): "Ray's autoscaler, beside the head of a run that may grow, adds pods",
    (
        "CKV_K8S_35",
        "StatefulSet",
    ): "The values of that file ask for it: OpenTelemetry takes headers from a variable only",
    (
        "CKV2_K8S_6",
        "Pod",
    ): "The pod of `helm test` listens to nothing; networkPolicy guards the exporters it asks",
}
"""(check, kind) -> why it stays."""


def objects() -> Iterator[Object]:
    """Everything rendered, and the pods of a RayJob, which checkov does not know, as pods."""
    for path in CI_VALUES:
        for each in render(yaml.safe_load(path.read_text(encoding="utf-8"))).objects:
            yield each
            if each["kind"] == "RayJob":
                for number, spec in enumerate(pod_specs(each)):
                    metadata = {"name": f"ray-{number}", "namespace": each["metadata"]["namespace"]}
                    yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def test_every_finding_that_remains_is_explained(tmp_path: Path) -> None:
    checkov = require(".cache/checkov/installed").parent / "bin" / "checkov"
    (tmp_path / "rendered.yaml").write_text(yaml.safe_dump_all(objects()), encoding="utf-8")
    run = subprocess.run(
        [
            checkov,
            "--directory",
            tmp_path,
            "--framework",
            "kubernetes",
            "--skip-download",
            "--output",
            "json",
        ],
        capture_output=True,
        text=True,
        timeout=WATCHDOG_SECONDS,
        check=False,
    )
    report: dict[str, Any] = json.loads(run.stdout)
    assert report["summary"]["parsing_errors"] == 0
    assert report["summary"]["passed"] > 500
    found = {
        (check["check_id"], check["resource"].partition(".")[0])
        for check in report["results"]["failed_checks"]
    }
    assert found == set(EXPLAINED)
