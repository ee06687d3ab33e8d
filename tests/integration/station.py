"""A monitoring stack of real processes, beside runs from a script: who speaks, who listens, who is told.

scenarios --> Teller --+--> exporter --+
GPU page --------------|---------------+--> Prometheus, rules with every duration / 60 --> Alertmanager --> Pager
                       +--> replica ---+
"""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests

from dashboards.inhibition import inhibition_yaml
from dashboards.rules import rules_yaml
from tests.alertmanager import Notification, Pager, run_alertmanager, run_pager
from tests.exporter.conftest import StartedExporter, StartExporter
from tests.integration.emitter import merge, post
from tests.integration.gpu_page import GpuPage, serve_gpu_page
from tests.integration.scenarios import Player, Scenario
from tests.prometheus import WATCHDOG_SECONDS, Alerting, Prometheus, run_prometheus

DIVISOR = 60
"""An hour of the shipped rules is a minute here, and Prometheus' own 5 min of looking back are 5 s."""
FLAGS = (
    *("--grace", "5"),
    *("--finished-run-grace", "15"),  # 15 min
    *("--window-versions", "4", "--window-seconds", "4"),
    *("--series-budget", "1000000"),  # versions come ten times as fast as runs of this number would have them
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
        self._over = False
        self._changed = threading.Condition()

    def run(self) -> None:
        try:
            self._play()
        finally:
            with self._changed:
                self._over = True
                self._changed.notify_all()

    def _play(self) -> None:
        due = time.monotonic()
        while not self._stopping.wait(max(due - time.monotonic(), 0.0)):
            said = merge(player.play(self.second) for player in self._players)
            for url in list(self.urls):
                try:
                    post(url, said)
                except requests.ConnectionError:  # it was killed: what it missed is not said again
                    continue
            with self._changed:
                self.second += 1
                self._changed.notify_all()
            due += 1.0

    def wait_for(self, second: int) -> None:
        """Returns when the scenarios have come so far."""
        with self._changed:
            self._changed.wait_for(lambda: self._over or self.second >= second, 4 * WATCHDOG_SECONDS)
            assert self.second >= second, "the scenarios have stopped"

    def stop(self) -> None:
        self._stopping.set()
        self.join()


@dataclass(frozen=True, kw_only=True, slots=True)
class Station:
    """The stack while it runs."""

    exporter: StartedExporter
    replica: StartedExporter
    """Another one, to which nobody speaks yet."""
    guarded: StartedExporter
    """A third: it asks senders for a token that nobody has."""
    prometheus: Prometheus
    pager: Pager
    teller: Teller
    gpus: GpuPage

    @property
    def told(self) -> list[Notification]:
        """What was told so far, the Watchdog aside."""
        return [told for told in list(self.pager.heard) if told.alert != "AsyncRLWatchdog"]

    @property
    def quiet(self) -> bool:
        return self.pager.firing() == {"AsyncRLWatchdog"}


@contextmanager
def run_station(
    directory: Path, start_exporter: StartExporter, scenarios: Mapping[str, Scenario], *, senders: Path
) -> Iterator[Station]:
    """Runs until the block ends; the scenarios begin at once. `senders` is the web config file of those who may
    send to the guarded exporter."""
    exporter = start_exporter(*FLAGS, environment=ENVIRONMENT)
    guarded = start_exporter("--otlp-web-config", str(senders), environment=ENVIRONMENT)
    replica = start_exporter(*FLAGS, environment=ENVIRONMENT)
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
            [exporter.metrics, replica.metrics, guarded.metrics, gpus.url],
            interval_seconds=1.0,
            alerting=Alerting(rules=rules, alertmanager=alertmanager, lookback_seconds=300 / DIVISOR),
        ) as prometheus,
    ):
        teller.start()
        try:
            yield Station(
                exporter=exporter,
                guarded=guarded,
                replica=replica,
                prometheus=prometheus,
                pager=pager,
                teller=teller,
                gpus=gpus,
            )
        finally:
            teller.stop()
