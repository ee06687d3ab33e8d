"""Says in the log what is lost. It may come with every version: the first is said at once, the next once a minute."""

import logging
import time
from collections import Counter
from typing import Final

from exporter.event_log import say
from exporter.sealing import Seal
from exporter.state import Run

log = logging.getLogger(__name__)

_QUIET_SECONDS: Final = 60.0
_MOST_REMEMBERED: Final = 4096


class LossLog:
    """A line per event and run, with `held_back` others that were not said since the one before."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, str], float] = {}
        """(event, run) -> monotonic seconds of its last line."""
        self._held = Counter[tuple[str, str]]()

    def say_seal(self, run: Run, seal: Seal) -> None:
        """What the seal gives up. The partial window at the end of a run is no loss."""
        for hole in seal.holes:
            self._say("records lost", run, source=hole.source_id, seqs=f"{hole.first}..{hole.last}")
        if set(seal.reasons) - {"run_end"}:
            reasons = ",".join(seal.reasons)
            self._say(
                "sealed incomplete", run, attempt=seal.attempt, param_version=seal.version, reasons=reasons
            )

    def say_decision(self, run: Run, kind: str, wall: float) -> None:
        """`kind` is that of the journal's event."""
        if kind == "abandon":
            self._say("run lost", run, silent_seconds=round(wall - run.last_seen))
        elif kind == "evict":
            self._say("versions leave the page early", run)

    def _say(self, event: str, run: Run, **facts: object) -> None:
        key, now = (event, run.name), time.monotonic()
        if now - self._said.get(key, -_QUIET_SECONDS) < _QUIET_SECONDS:
            self._held[key] += 1
            return
        if len(self._said) >= _MOST_REMEMBERED:
            self._said.clear()
            self._held.clear()
        self._said[key] = now
        held = {"held_back": count} if (count := self._held.pop(key, 0)) else {}
        say(log, event, level=logging.WARNING, run=run.name, **facts, **held)
