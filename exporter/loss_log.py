"""Says in the log what is lost. It may come with every version: the first is said at once, the next once a minute."""

import logging
import traceback
from collections.abc import Collection
from typing import Any

from exporter.attributes import label
from exporter.event_log import SparseLog
from exporter.records import Reply
from exporter.sealing import Seal
from exporter.state import Run

log = logging.getLogger(__name__)

_SHOWN_CHARACTERS = 300


class LossLog:
    """A line per event and run."""

    def __init__(self) -> None:
        self._log = SparseLog(log)

    def say_seal(self, run: Run, seal: Seal, runs: Collection[Run]) -> None:
        """What the seal gives up. The partial window at the end of a run is no loss. Of `runs` that have a source in
        common one is named: it may number the records of both in one count."""
        sources = {hole.source_id for hole in seal.holes}
        others = [other for other in runs if other is not run] if sources else []
        also = {id_: other.name for other in others for id_ in sources & other.sources.keys()}
        for hole in seal.holes:
            seqs, source = f"{hole.first}..{hole.last}", hole.source_id
            shared = {"also_of": also[source]} if source in also else {}
            self._say("records lost", run, source=source, seqs=seqs, **shared)
        if set(seal.reasons) - {"run_end"}:
            reasons = ",".join(seal.reasons)
            self._say(
                "sealed incomplete", run, attempt=seal.attempt, param_version=seal.version, reasons=reasons
            )

    def say_refusal(self, reply: Reply) -> None:
        """The first record of a request that was refused or late, if one was."""
        if reply.rejected:
            run, reason = label(reply.run), reply.reason.partition(": ")[0]
            example = reply.reason[:_SHOWN_CHARACTERS]
            self._log.say("records refused", run, reason, run=run, reason=reason, example=example)

    def say_decision(self, run: Run, kind: str, wall: float, *, early: int) -> None:
        """`kind` is that of the journal's event, `early` how many versions left the page early."""
        if kind == "abandon":
            self._say("run lost", run, silent_seconds=round(wall - run.last_seen))
        elif early:
            self._say("versions leave the page early", run)

    def say_failure(self, run: Run) -> None:
        """While an exception is handled: a defect of ours keeps the run from being sealed."""
        self._log.say(
            "run cannot be looked after",
            run.name,
            level=logging.ERROR,
            run=run.name,
            traceback=traceback.format_exc(),
        )

    def _say(self, event: str, run: Run, **facts: Any) -> None:
        self._log.say(event, run.name, run=run.name, **facts)
