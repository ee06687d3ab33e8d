"""The real Alertmanager beside a test, and the webhook that it calls: what an operator would be told.

with run_pager() as pager, run_alertmanager(tmp_path, pager, inhibition=rules_yaml) as url:
    run_prometheus(..., rules=..., alertmanager=url)
    pager.wait_for(lambda: pager.resolved("AsyncRLRunFailed", run="r"))
"""

import json
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.http_listener import listen
from tests.prometheus import WATCHDOG_SECONDS, require_binary, wait_until_ready


@dataclass(frozen=True, kw_only=True, slots=True)
class Notification:
    """One alert of one call of the webhook."""

    status: str
    """`firing` or `resolved`."""
    labels: Mapping[str, str]
    annotations: Mapping[str, str]

    @property
    def alert(self) -> str:
        return self.labels["alertname"]


class Pager:
    """What arrived at the webhook, in its order."""

    def __init__(self) -> None:
        self.url = ""
        self.heard: list[Notification] = []
        self._changed = threading.Condition()

    def take(self, call: bytes) -> bytes:
        """One call of the webhook, as Alertmanager writes it."""
        alerts: list[dict[str, Any]] = json.loads(call)["alerts"]
        with self._changed:
            self.heard += [
                Notification(status=alert["status"], labels=alert["labels"], annotations=alert["annotations"])
                for alert in alerts
            ]
            self._changed.notify_all()
        return b""

    def wait_for(self, condition: Callable[[], object], seconds: float = WATCHDOG_SECONDS) -> bool:
        """Whether the condition came to hold; it is looked at whenever something arrives."""
        with self._changed:
            return bool(self._changed.wait_for(condition, seconds))

    def told(self, **labels: str) -> list[Notification]:
        """What was told of alerts with these labels."""
        wanted = labels.items()
        return [told for told in list(self.heard) if wanted <= told.labels.items()]

    def fired(self, **labels: str) -> set[str]:
        """The names of the alerts with these labels that ever fired."""
        return {told.alert for told in self.told(**labels) if told.status == "firing"}

    def firing(self, **labels: str) -> set[str]:
        """Of those, the names of the alerts that have not resolved."""
        last = {tuple(sorted(told.labels.items())): told for told in self.told(**labels)}
        return {told.alert for told in last.values() if told.status == "firing"}


@contextmanager
def run_pager() -> Iterator[Pager]:
    """Listens on a free port until the block ends."""
    pager = Pager()
    with listen(pager.take) as pager.url:
        yield pager


@contextmanager
def run_alertmanager(directory: Path, pager: Pager, *, inhibition: str = "") -> Iterator[str]:
    """Its URL. It tells the pager of each alert by itself and at once, but for those that `inhibition`, the YAML
    of `inhibit_rules`, holds back."""
    binary = require_binary("prometheus-alertmanager")
    config = directory / "alertmanager.yml"
    route = {
        "receiver": "pager",
        "group_by": ["..."],
        "group_wait": "1s",  # a cause that fires in the same evaluation inhibits before its effects are told
        "group_interval": "5s",
        "repeat_interval": "1h",
    }
    receiver = {"name": "pager", "webhook_configs": [{"url": pager.url, "send_resolved": True}]}
    document = {"route": route, "receivers": [receiver]} | (yaml.safe_load(inhibition) or {})
    config.write_text(yaml.safe_dump(document))
    log = directory / "alertmanager.log"
    with log.open("w") as log_file:
        process = subprocess.Popen(
            [
                binary,
                f"--config.file={config}",
                f"--storage.path={directory / 'alertmanager'}",
                "--web.listen-address=127.0.0.1:0",
                "--cluster.listen-address=",
            ],
            stdout=log_file,
            stderr=subprocess.STDOUT,
        )
    try:
        yield wait_until_ready(process, log)
    finally:
        process.terminate()
        try:
            process.wait(timeout=WATCHDOG_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
