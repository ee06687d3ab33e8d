"""The rendered container carried out on this host: command, settings, web config, probes and signals are the chart's.

What a node would mount lies under a folder that stands for the root of the container; every path in the rendered texts
moves there. Its user and its read-only root are a matter of tests/test_container.py.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.helm.chart import CHART, Rendered, render
from tests.web_config import Authority, replace
from tests.wire import PROTOBUF, WATCHDOG_SECONDS, Emitter, scrape_until

MOUNTED = ("/etc/asyncrl", "/data")
"""What stands in the rendered texts of the container's file system."""


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


class Node:
    """Mounts what was rendered below `root`, runs the container and asks its probes, as a kubelet does."""

    def __init__(self, root: Path, rendered: Rendered) -> None:
        self.root = root
        self.rendered = rendered
        self.log = root / "log"
        self.ports = {port["name"]: port["containerPort"] for port in rendered.container()["ports"]}
        scheme = rendered.container()["readinessProbe"]["httpGet"]["scheme"].lower()
        self.urls = {name: f"{scheme}://127.0.0.1:{port}" for name, port in self.ports.items()}
        for path in ("data", "tmp"):
            (root / path).mkdir(exist_ok=True)
        self.mount(rendered)

    def place(self, text: str) -> str:
        """The text with the paths of the container turned into ours."""
        for path in MOUNTED:
            text = text.replace(path, f"{self.root}{path}")
        return text

    def mount(self, rendered: Rendered) -> None:
        """The ConfigMaps and Secrets that a pod mounts, where it mounts them."""
        maps = {
            each["metadata"]["name"]: each["data"] for each in rendered.objects if each["kind"] == "ConfigMap"
        }
        secrets = {each["metadata"]["name"]: each["stringData"] for each in rendered.all("Secret")}
        for spec in (rendered.pod()["spec"], rendered.test_pod()["spec"]):
            mounts = {mount["name"]: mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]}
            for volume in spec["volumes"]:
                if "configMap" in volume:
                    self._write(mounts[volume["name"]], maps[volume["configMap"]["name"]])
                elif volume.get("secret", {}).get("secretName") in secrets:
                    secret = secrets[volume["secret"]["secretName"]]
                    files = {item["path"]: secret[item["key"]] for item in volume["secret"]["items"]}
                    self._write(mounts[volume["name"]], files)

    def _write(self, directory: str, files: dict[str, str]) -> None:
        (self.root / directory.strip("/")).mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            replace(self.root / directory.strip("/") / name, self.place(text).encode())

    @property
    def token(self) -> str:
        """What senders show."""
        return (self.root / "etc/asyncrl/token/token").read_text(encoding="utf-8")

    def command(self, container: dict[str, Any]) -> list[str]:
        """What the container runs."""
        return [self.place(word) for word in (*container["command"], *container.get("args", []))]

    def environment(self) -> dict[str, str]:
        """As bare as an image's: where programs are, and where temporary files go."""
        return {
            "PATH": f"{Path(sys.executable).parent}:{os.defpath}",
            "PYTHONUNBUFFERED": "1",
            "TMPDIR": str(self.root / "tmp"),
        }

    @contextmanager
    def started(self) -> Iterator[subprocess.Popen[bytes]]:
        """The running container, once it is ready."""
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                self.command(self.rendered.container()),
                cwd=self.root,
                env=self.environment(),
                stdout=log,
                stderr=log,
            )
        try:
            for name in ("startupProbe", "livenessProbe", "readinessProbe"):
                self._probe(self.rendered.container()[name])
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()

    def _probe(self, probe: dict[str, Any]) -> None:
        asked = probe["httpGet"]
        url = f"{asked['scheme'].lower()}://127.0.0.1:{self.ports[asked['port']]}{asked['path']}"
        deadline = time.monotonic() + WATCHDOG_SECONDS
        while time.monotonic() < deadline:
            try:
                # A kubelet checks no certificate, and ends the connection with the answer.
                answer = requests.get(
                    url, verify=False, timeout=probe["timeoutSeconds"], headers={"connection": "close"}
                )
            except requests.RequestException:
                time.sleep(0.1)
                continue
            assert answer.status_code == 200
            return
        pytest.fail(f"{url} never answered:\n{self.log.read_text()}")

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """As a pod is deleted."""
        process.send_signal(signal.SIGTERM)
        grace_seconds = self.rendered.pod()["spec"]["terminationGracePeriodSeconds"]
        assert process.wait(timeout=grace_seconds) == 0, self.log.read_text()

    def post(self, emitter: Emitter, *spans: Any, token: str) -> int:
        """The status of the answer."""
        return requests.post(
            f"{self.urls['otlp']}/v1/traces",
            data=emitter.request(*spans).SerializeToString(),
            headers={"content-type": PROTOBUF, "authorization": f"Bearer {token}"},
            timeout=WATCHDOG_SECONDS,
        ).status_code


def chart_with(ports: list[int], **values: Any) -> Rendered:
    return render({"ports": {"metrics": ports[0], "otlp": ports[1]}, **values})


def test_the_container_takes_publishes_stops_in_time_and_loses_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path, chart_with(free_ports(2)))
    trainer = Emitter(node.urls["otlp"], run="kept")
    steps = [trainer.train_step(1, step, values={"policy_loss": float(step)}) for step in (1, 2, 3, 4)]
    with node.started() as process:
        assert node.post(trainer, *steps[:2], token="wrong") == 401
        assert node.post(trainer, *steps, token=node.token) == 200
        assert requests.get(f"{node.urls['metrics']}/metrics", timeout=WATCHDOG_SECONDS).status_code == 200
        runs = f"{node.urls['metrics']}/api/v1/runs"
        assert requests.get(runs, timeout=WATCHDOG_SECONDS).status_code == 401
        node.stop(process)
    with node.started() as process:  # the same volume, another life: the open window goes on
        assert node.post(trainer, trainer.weight_sync(1, 4), token=node.token) == 200
        page = scrape_until(
            node.urls["metrics"], lambda page: page.value("asyncrl_policy_loss", run="kept") is not None
        )
        assert page.value("asyncrl_policy_loss", run="kept") == 2.5
        assert page.value("asyncrl_version_complete", run="kept", attempt=1, param_version=1) == 1.0
        assert page.value("asyncrl_train_steps_total", run="kept") == 4.0
        node.stop(process)
    assert {path.name for path in tmp_path.iterdir()} == {"data", "etc", "log", "tmp"}
    assert list((tmp_path / "tmp").iterdir()) == []


def test_c79_another_token_is_taken_without_a_restart(tmp_path: Path) -> None:
    ports = free_ports(2)
    node = Node(tmp_path, chart_with(ports))
    # As after `kubectl delete secret` and an upgrade: nothing but the Secret is another.
    other = render(
        {"ports": {"metrics": ports[0], "otlp": ports[1]}, "fullnameOverride": "rel-asyncrl-exporter"}
    )
    assert other.pod() == node.rendered.pod()
    old = node.token
    trainer = Emitter(node.urls["otlp"])
    with node.started() as process:
        node.mount(other)
        assert node.token != old
        deadline = time.monotonic() + WATCHDOG_SECONDS
        while node.post(trainer, token=node.token) != 200:
            assert time.monotonic() < deadline, node.log.read_text()
            time.sleep(0.1)
        assert node.post(trainer, token=old) == 401
        node.stop(process)


def run_test_pod(node: Node) -> subprocess.CompletedProcess[str]:
    """`helm test`, with this host in place of the Service."""
    pod = node.rendered.test_pod()["spec"]["containers"][0]
    command = ["--hosts=127.0.0.1" if word.startswith("--hosts=") else word for word in node.command(pod)]
    return subprocess.run(
        command,
        env=node.environment(),
        capture_output=True,
        text=True,
        timeout=2 * WATCHDOG_SECONDS,
        check=False,
    )


@pytest.mark.parametrize("auth", [{}, {"insecure": True}], ids=["token", "insecure"])
def test_helm_test_sends_three_versions_and_compares_them(tmp_path: Path, auth: dict[str, Any]) -> None:
    node = Node(tmp_path, chart_with(free_ports(2), auth=auth))
    with node.started() as process:
        proved = run_test_pod(node)
        assert proved.returncode == 0, proved.stdout + proved.stderr
        shown = proved.stdout.splitlines()[-1]
        assert shown.endswith("{'1': 2.5, '2': 6.5, '3': 10.5}, expected {'1': 2.5, '2': 6.5, '3': 10.5}")
        node.stop(process)
    failed = run_test_pod(node)
    assert failed.returncode != 0


def test_helm_test_fails_where_a_version_is_wrong(tmp_path: Path) -> None:
    node = Node(tmp_path, chart_with(free_ports(2)))
    script = tmp_path / "etc/asyncrl/test/round_trip.py"
    text = (CHART / "files" / "round_trip.py").read_text(encoding="utf-8")
    assert script.read_text(encoding="utf-8") == node.place(text)
    wrong = text.replace('"2": 6.5', '"2": 6.6').replace("MOST_SECONDS = 60.0", "MOST_SECONDS = 1.0")
    script.write_text(wrong, encoding="utf-8")
    with node.started() as process:
        failed = run_test_pod(node)
        assert (failed.returncode, failed.stderr) == (1, "")
        assert "'2': 6.5" in failed.stdout
        node.stop(process)


@pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")
def test_with_tls_probes_senders_and_helm_test_go_through_the_certificate(tmp_path: Path) -> None:
    certificates = tmp_path / "etc/asyncrl/tls"
    certificates.mkdir(parents=True)
    authority = Authority.found(certificates)
    certificate, key = authority.issue("tls")
    assert (certificate.name, key.name, authority.ca_file.name) == ("tls.crt", "tls.key", "ca.crt")
    node = Node(tmp_path, chart_with(free_ports(2), tls={"existingSecret": "certificate"}))
    assert node.urls["otlp"].startswith("https://")
    with node.started() as process:
        proved = run_test_pod(node)
        assert proved.returncode == 0, proved.stdout + proved.stderr
        node.stop(process)
