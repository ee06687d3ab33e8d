"""The images, built without a container engine, at work: under a number that nobody has, with a read-only root.

The last test lays out the Ray cluster of the chart's RayJob: head, trainer and rollouter as processes of the image,
with the start parameters, mounts and entry point that the chart renders, each on an address of its own.
"""

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest
import requests

from tests.container_image import ROOT, WATCHDOG_SECONDS, Builder, Image, can_build
from tests.dockerfile import read_dockerfile
from tests.exporter.conftest import StartExporter, exporters
from tests.helm.chart import render
from tests.web_config import token_digest, write_web_config
from tests.wire import Emitter, Scrape

pytestmark = [pytest.mark.peer, pytest.mark.timeout(3600)]

OTHER_USER = "12345:12345"
"""As some clusters give every namespace its own."""
BUILD_TOOLS = ("pip", "pip3", "gcc", "cc", "ld", "make", "git", "curl", "wget")
WHEELS = "/wheels"


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    if reason := can_build():
        if os.environ.get("ASYNCRL_REQUIRE_ALL"):
            pytest.fail(reason)
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("images")
    yield Builder(folder, run_environment={"PIP_FIND_LINKS": WHEELS})
    shutil.rmtree(folder)  # gigabytes


@pytest.fixture(scope="module")
def exporter_image(builder: Builder) -> Image:
    return builder.build("exporter")


@pytest.fixture(scope="module")
def runtime_image(builder: Builder) -> Image:
    """With the build of torch that this machine would install: where it is one for CPUs, gigabytes are spared."""
    places = [
        "--constraint",
        str(ROOT / "constraints.txt"),
        "--dest",
        str(builder.folder_in("build", WHEELS)),
    ]
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--no-deps", "torch", *places],
        check=True,
        capture_output=True,
        timeout=WATCHDOG_SECONDS,
    )
    return builder.build("runtime")


def folders(place: Path, *paths: str) -> dict[str, Path]:
    """An empty folder for each path inside, that OTHER_USER may write to."""
    made = {}
    for path in paths:
        made[path] = place / path.strip("/")
        made[path].mkdir(parents=True)
        os.chown(made[path], *map(int, OTHER_USER.split(":")))
    return made


@contextmanager
def started(
    image: Image, *words: str, writable: Mapping[str, Path], log: Path, **variables: str
) -> Iterator[subprocess.Popen[str]]:
    """Under OTHER_USER with a read-only root; its output goes to `log`."""
    command = image.command(*words, user=OTHER_USER, writable=writable, variables=variables)
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, text=True, start_new_session=True)
    try:
        yield process
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, number)
                process.wait(timeout=60)


def wait_for(condition: Any, process: subprocess.Popen[str], log: Path) -> Any:
    """The first true answer of `condition`."""
    deadline = time.monotonic() + WATCHDOG_SECONDS
    while not (answer := condition()):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.2)
    return answer


@pytest.mark.parametrize("target", ["exporter", "runtime"])
def test_an_image_holds_no_tool_that_builds_or_fetches(target: str, request: pytest.FixtureRequest) -> None:
    image: Image = request.getfixturevalue(f"{target}_image")
    for tool in BUILD_TOOLS:
        found = image.run("sh", "-c", f"command -v {tool}")
        assert found.stdout == "", found.stdout
    assert image.run("python3", "-m", "pip", "--version").returncode != 0


@pytest.mark.parametrize("target", ["exporter", "runtime"])
def test_an_image_holds_the_releases_that_are_pinned(target: str, request: pytest.FixtureRequest) -> None:
    image: Image = request.getfixturevalue(f"{target}_image")
    code = "from importlib.metadata import distributions; print(*(each.name for each in distributions()))"
    installed = {canonical(name) for name in image.run("python3", "-c", code).stdout.split()}
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert installed - {canonical(line.partition("==")[0]) for line in lines} == {"asyncrl-exporter"}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_exporter_image_has_neither_torch_nor_ray(exporter_image: Image) -> None:
    code = (
        "from importlib.util import find_spec; print([find_spec(name) for name in ('torch', 'ray', 'numpy')])"
    )
    assert exporter_image.run("/opt/asyncrl/bin/python", "-c", code).stdout == "[None, None, None]\n"
    run = exporter_image.run("asyncrl", "run")
    assert run.returncode == 2
    assert "asyncrl-exporter[runtime]" in run.stderr


def test_the_exporter_image_is_open_to_others_only_when_told_how(exporter_image: Image) -> None:
    stage = read_dockerfile(ROOT / "Dockerfile")["exporter"]
    refused = exporter_image.run(*stage.last("ENTRYPOINT").words, *stage.last("CMD").words)
    assert refused.returncode == 2
    (line,) = refused.stderr.splitlines()
    assert "web config file" in line


def test_c77_the_exporter_image_needs_no_more_than_its_data_folder(
    exporter_image: Image, tmp_path: Path
) -> None:
    """Receives, publishes, answers its health check, its history and its doctor, and ends when it is told to."""
    writable = folders(tmp_path, "/data")
    log = tmp_path / "log"
    places = ("--data-dir", "/data", "--endpoints-file", "/data/endpoints.json", "--grace", "1")
    words = ("asyncrl", "exporter", "--listen", "127.0.0.1:0", "--otlp", "127.0.0.1:0", *places)
    with started(exporter_image, *words, writable=writable, log=log) as process:
        endpoints_file = writable["/data"] / "endpoints.json"
        wait_for(endpoints_file.exists, process, log)
        endpoints = json.loads(endpoints_file.read_text())
        emitter = Emitter(endpoints["otlp"])
        losses = ({"policy_loss": 1.0}, {"policy_loss": 4.0})
        assert emitter.post(*emitter.window(1, losses), emitter.run_end(1)).status == 200

        def published() -> bool:
            return Scrape(endpoints["metrics"]).value("asyncrl_policy_loss", run="r") == 2.5

        wait_for(published, process, log)
        healthcheck = json.loads(
            read_dockerfile(ROOT / "Dockerfile")["exporter"].last("HEALTHCHECK").text.removeprefix("CMD")
        )
        port = endpoints["metrics"].rpartition(":")[2]
        asked = [word.replace("9810", port) for word in healthcheck]
        assert exporter_image.run(*asked).returncode == 0
        urls = ("--url", endpoints["metrics"])
        table = exporter_image.run("asyncrl", "history", "export", "r", "--format", "csv", *urls)
        assert table.returncode == 0, table.stderr
        header, row = (line.split(",") for line in table.stdout.splitlines())
        assert float(row[header.index("metrics.policy_loss")]) == 2.5
        doctor = exporter_image.run("asyncrl", "doctor", *urls, "--otlp-url", endpoints["otlp"])
        assert doctor.returncode == 0, doctor.stdout + doctor.stderr
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0, log.read_text()
        assert exporter_image.run(*asked).returncode != 0


def test_the_runtime_image_trains(runtime_image: Image, tmp_path: Path) -> None:
    """As `docker run` would: with an exporter of its own."""
    writable = folders(tmp_path, "/runs", "/tmp")
    log = tmp_path / "log"
    settings = ("run_id=r", "runs_dir=/runs", "exporter.listen=127.0.0.1:0", "exporter.otlp=127.0.0.1:0")
    words = ["asyncrl", "run", "--versions", "2", *(word for each in settings for word in ("--set", each))]
    with started(runtime_image, *words, writable=writable, log=log) as process:
        assert process.wait(timeout=WATCHDOG_SECONDS) == 0, log.read_text()
    summary = json.loads((writable["/runs"] / "r" / "summary.json").read_text())
    assert (summary["status"], summary["versions_published"]) == ("completed", 2)


class RayNodes:
    """Starts processes of the image as KubeRay starts pods, on 127.0.0.2, .3, ... in place of their addresses."""

    dashboard = "http://127.0.0.2:28265"
    environment: ClassVar = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef" * 4}
    """What KubeRay adds to every container for `authOptions`."""

    def __init__(self, image: Image, place: Path, stack: ExitStack) -> None:
        self._image = image
        self._place = place
        self._stack = stack
        self._numbers = itertools.count(2)

    def start(
        self, template: Mapping[str, Any], parameters: Mapping[str, str], mounts: Mapping[str, Path]
    ) -> None:
        """`ray start` with the parameters of a group; returns when its own probe says that it is ready."""
        number = next(self._numbers)
        address = f"127.0.0.{number}"
        (container,) = template["spec"]["containers"]
        probe = container["readinessProbe"]["httpGet"]
        port = probe["port"] + number  # one machine, so that each has to have another
        head = "--head --port=26379 --dashboard-port=28265"
        join = head if "dashboard-host" in parameters else "--address=127.0.0.2:26379"
        own = f"--node-ip-address={address} --dashboard-agent-listen-port={port}"
        flags = " ".join(f"--{name}={value}" for name, value in parameters.items())
        log = self._place / f"{address}.log"
        process = self._stack.enter_context(
            started(
                self._image,
                # On a crowded machine a node may give up its start; Kubernetes would start the container again, too.
                *("/bin/bash", "-c", f"until ray start --block {join} {own} {flags}; do sleep 1; done"),
                writable={**folders(self._place / address, "/tmp"), **mounts},
                log=log,
                **{each["name"]: each["value"] for each in container["env"]},
                **self.environment,
            )
        )
        wait_for(lambda: answers(f"http://{address}:{port}{probe['path']}"), process, log)

    def ray(self, group: str, verb: str, *words: str) -> subprocess.CompletedProcess[str]:
        """A command of Ray to the head, from a pod of its own."""
        place = self._place / f"submitter-{next(self._numbers)}"
        return self._image.run(
            *("ray", group, verb, "--address", self.dashboard, *words),
            user=OTHER_USER,
            writable=folders(place, "/tmp"),
            variables=self.environment,
        )


def answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=5).ok
    except requests.RequestException:
        return False


@pytest.fixture
def start_exporter(tmp_path: Path) -> Iterator[StartExporter]:
    yield from exporters(tmp_path)


@pytest.fixture
def ray_job(
    runtime_image: Image, start_exporter: StartExporter, tmp_path: Path
) -> Iterator[tuple[RayNodes, dict[str, Any], str]]:
    """The nodes of the chart's cluster with two rollouter pods, the RayJob's spec, and the history of the exporter."""
    web_config = write_web_config(tmp_path / "ingest.yml", bearer_tokens={"run": token_digest("secret")})
    exporter = start_exporter("--otlp-web-config", str(web_config), "--grace", "2")
    config = {"telemetry": {"endpoints": [exporter.otlp]}, "versions": 2}
    groups = {"trainer": {"gpus": 0}, "rollouter": {"gpus": 0, "minReplicas": 2, "maxReplicas": 2}}
    rendered = render({"run": {"enabled": True, "id": "on-ray", "config": config, **groups}})
    (config_map,) = [each for each in rendered.all("ConfigMap") if "config.json" in each["data"]]
    mounts = folders(tmp_path, "/etc/asyncrl/run", "/etc/asyncrl/telemetry", "/runs")
    (mounts["/etc/asyncrl/run"] / "config.json").write_text(config_map["data"]["config.json"])
    (mounts["/etc/asyncrl/telemetry"] / "token").write_text("secret")
    for path in mounts:
        (runtime_image.root / path.strip("/")).mkdir(parents=True, exist_ok=True)
    spec = rendered.one("RayJob")["spec"]
    with ExitStack() as stack:
        nodes = RayNodes(runtime_image, tmp_path, stack)
        head = spec["rayClusterSpec"]["headGroupSpec"]
        nodes.start(head["template"], head["rayStartParams"], {})
        for group in spec["rayClusterSpec"]["workerGroupSpecs"]:
            named = {each["mountPath"] for each in group["template"]["spec"]["containers"][0]["volumeMounts"]}
            own = {path: folder for path, folder in mounts.items() if path in named}
            for _ in range(group["replicas"]):
                nodes.start(group["template"], group["rayStartParams"], own)
        yield nodes, spec, f"{exporter.metrics}/api/v1/runs"


def versions_of(history: str, run: str) -> list[dict[str, Any]]:
    """The sealed versions of a run; none of one that the exporter has not heard of."""
    answer = requests.get(f"{history}/{run}/versions", timeout=WATCHDOG_SECONDS)
    found: list[dict[str, Any]] = answer.json()["versions"] if answer.ok else []
    return [version for version in found if version["train_steps"]]


def test_the_run_of_the_chart_trains_on_a_cluster_laid_out_like_its_ray_job(
    ray_job: tuple[RayNodes, dict[str, Any], str], tmp_path: Path
) -> None:
    nodes, spec, history = ray_job
    assert requests.get(f"{nodes.dashboard}/api/jobs/", timeout=60).status_code == 401

    resources = ("--entrypoint-resources", spec["entrypointResources"])
    done = nodes.ray("job", "submit", *resources, "--", *spec["entrypoint"].split())
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads((tmp_path / "runs" / "on-ray" / "summary.json").read_text())
    assert (summary["status"], summary["versions_published"]) == ("completed", 2)
    versions = versions_of(history, "on-ray")
    assert [(each["param_version"], each["complete"]) for each in versions] == [(1, True), (2, True)]
    assert versions[-1]["rollouters"].keys() == {"0", "1"}

    # As KubeRay does when the RayJob is deleted.
    endless = (*spec["entrypoint"].split(), "--set", "run_id=endless", "--versions", "1000000")
    nodes.ray("job", "submit", *resources, "--no-wait", "--submission-id", "endless", "--", *endless)
    deadline = time.monotonic() + WATCHDOG_SECONDS
    while not versions_of(history, "endless"):
        assert time.monotonic() < deadline, nodes.ray("job", "logs", "endless").stdout
        time.sleep(0.5)
    assert nodes.ray("job", "stop", "endless").returncode == 0
    summary = json.loads((tmp_path / "runs" / "endless" / "summary.json").read_text())
    assert summary["status"] == "stopped"
    (ended,) = [each for each in requests.get(history, timeout=60).json()["runs"] if each["run"] == "endless"]
    assert ended["status"] == "stopped"
