"""A monitoring stack of real processes, beside runs from a script: who speaks, who listens, who is told.

scenarios --> Teller --+--> exporter --+
GPU page --------------|---------------+--> Prometheus, rules with every duration / 60 --> Alertmanager --> Pager
                       +--> replica ---+
"""

import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import requests

from dashboards.inhibition import inhibition_yaml
from dashboards.rules import rules_yaml
from tests.alertmanager import Pager, run_alertmanager, run_pager
from tests.exporter.conftest import StartedExporter, StartExporter
from tests.integration.emitter import merge, post
from tests.integration.gpu_page import GpuPage, serve_gpu_page
from tests.integration.scenarios import LAST, Player, Scenario
from tests.prometheus import Alerting, Prometheus, run_prometheus

DIVISOR = 60
"""An hour of the shipped rules is a minute here, and Prometheus' own 5 min of looking back are 5 s."""
FLAGS = (
    *("--grace", "5"),
    *("--finished-run-grace", "15"),  # 15 min
    *("--window-versions", "4", "--window-seconds", "4"),
)
ENVIRONMENT = {"PYTHONDEVMODE": ""}
"""Python's development mode would cost the exporters most of the time they have here."""


class Teller(threading.Thread):
    """Plays all scenarios, a second per second, to every exporter of `urls` that takes it."""

    def __init__(self, scenarios: Mapping[str, Scenario]) -> None:
        super().__init__(name="teller")
        self.urls: list[str] = []
        self.second = 0
        self._players = [Player(name, scenario) for name, scenario in scenarios.items()]
        self._stopping = threading.Event()

    def run(self) -> None:
        due = time.monotonic()
        while self.second <= LAST and not self._stopping.wait(max(due - time.monotonic(), 0.0)):
            said = merge(player.play(self.second) for player in self._players)
            for url in list(self.urls):
                try:
                    post(url, said)
                except requests.ConnectionError:  # it was killed: what it missed is not said again
                    continue
            self.second += 1
            due += 1.0

    def stop(self) -> None:
        self._stopping.set()
        self.join()


class Station:
    """The stack while it runs. The replica is started by whoever wants it."""

    def __init__(
        self,
        start_exporter: StartExporter,
        exporter: StartedExporter,
        replica_flags: tuple[str, ...],
        prometheus: Prometheus,
        pager: Pager,
        teller: Teller,
        gpus: GpuPage,
    ) -> None:
        self._start_exporter = start_exporter
        self._replica_flags = replica_flags
        self.exporter = exporter
        self.prometheus = prometheus
        self.pager = pager
        self.teller = teller
        self.gpus = gpus

    def start_replica(self, data_dir: Path) -> StartedExporter:
        """A second exporter of the same runs, at the address that Prometheus has of it."""
        replica = self._start_exporter(
            *FLAGS, *self._replica_flags, data_dir=data_dir, environment=ENVIRONMENT
        )
        self.teller.urls = [self.exporter.otlp, replica.otlp]
        return replica


@contextmanager
def run_station(
    directory: Path, start_exporter: StartExporter, scenarios: Mapping[str, Scenario]
) -> Iterator[Station]:
    """Runs until the block ends; the scenarios begin at once."""
    exporter = start_exporter(*FLAGS, environment=ENVIRONMENT)
    listen = f"127.0.0.1:{free_port()}"
    rules = directory / "rules.yaml"
    rules.write_text(rules_yaml(DIVISOR))
    teller = Teller(scenarios)
    teller.urls = [exporter.otlp]
    with (
        run_pager() as pager,
        run_alertmanager(directory, pager, inhibition=inhibition_yaml()) as alertmanager,
        serve_gpu_page() as gpus,
        run_prometheus(
            directory,
            [exporter.metrics, f"http://{listen}", gpus.url],
            interval_seconds=1.0,
            alerting=Alerting(rules=rules, alertmanager=alertmanager, lookback_seconds=300 / DIVISOR),
        ) as prometheus,
    ):
        teller.start()
        try:
            yield Station(start_exporter, exporter, ("--listen", listen), prometheus, pager, teller, gpus)
        finally:
            teller.stop()


def free_port() -> int:
    """Of this machine, a moment ago."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
