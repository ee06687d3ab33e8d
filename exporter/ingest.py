"""The one writer: journals requests, then applies them to the ledger, then seals what is due, then shows it.

    submit (event loop) --> queue --> writer thread:  1 journal the requests of this turn, one commit
                                                      2 apply them to the ledger, in the journal's order
                                                      3 decide (seal, forget, ...), journal the decisions, one commit
                                                      4 replace the snapshot, answer the senders
Nothing is acknowledged before its commit, nothing is shown before its decision is on disk.
"""

import asyncio
import logging
import math
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final, Literal, Self

import msgspec

from exporter import catalog, otlp
from exporter.archive import Archive
from exporter.config import ExporterConfig
from exporter.errors import DataDirectoryError, JournalUnavailable, Overloaded, RequestError
from exporter.event_log import say
from exporter.journal import Event, Journal
from exporter.ledger import Ledger
from exporter.live import LiveGauges
from exporter.loss_log import LossLog
from exporter.page_budget import PageBudget
from exporter.records import Batch, Reply
from exporter.sealing import Seal, next_seal
from exporter.snapshot import RunSnapshot, Snapshot, take_run
from exporter.state import Run, RunSummary, SealedWindow
from exporter.submission import Submission
from exporter.version_window import HARD_CAP, VersionWindow
from runtime.telemetry import schema

log = logging.getLogger(__name__)

Signal = Literal["traces", "metrics"]
TICK_SECONDS: Final = 0.2
"""How often graces and retentions are looked at when nothing arrives."""
MAX_QUEUED_BYTES: Final = 256 * 1024 * 1024
MAX_TURN_BYTES: Final = 16 * 1024 * 1024
CHECKPOINT_BYTES: Final = 8 * 1024 * 1024
"""Bytes of events after which the state is stored and the events are dropped; bounds disk and restart time."""
CHECKPOINT_SECONDS: Final = 3600.0
"""The same by time: a quiet exporter, too, drops what the retention is over for."""


class RunDecision(msgspec.Struct, frozen=True, kw_only=True):
    """`abandon`: the run is lost. `forget`: it leaves the page. `evict`: `count` versions left it early, and the
    version window has every `stride`-th one."""

    run: str
    count: int = 0
    stride: int = 1


class Ingest:
    """Owns the journal and the ledger. `snapshot` may be read from any thread."""

    def __init__(self, config: ExporterConfig, journal: Journal) -> None:
        self.config = config
        self.journal = journal
        self.archive = Archive(journal.path)
        journal.pushing = bool(config.push)
        self.snapshot = Snapshot()
        self._working = False
        self._started = time.time()
        self.scrape_interval: Callable[[], float | None] = lambda: None
        """How often the page is scraped, seconds; the server that sees the scrapes sets it."""
        self._queue: queue.SimpleQueue[Submission | None] = queue.SimpleQueue()
        self._submitted_bytes = 0  # moved by the event loop
        self._taken_bytes = 0  # moved by the writer
        self._windows: dict[str, VersionWindow] = {}
        self._placed = 0
        """How many of the ledger's outbox are in their version windows already."""
        self._runs: dict[str, RunSnapshot] = {}
        """Whole, the oldest first."""
        self.budget = PageBudget(config.series_budget, started=self._started)
        self._losses = LossLog()
        self._unstored: list[Event] = []
        """Decisions that are applied, but not yet on disk."""
        self._event_bytes = 0
        self._checkpointed = time.monotonic()
        self._all_decided = -math.inf
        self._retention_seconds = config.retention_days * 86_400
        self._journal_fails = False
        self._refused_bytes = 0
        """Of the requests that the journal did not take last."""
        self._thread = threading.Thread(target=self._write_until_closed, name="ledger-writer")

    @classmethod
    def open(cls, config: ExporterConfig) -> Self:
        """Open the journal, restore the ledger, start the writer. Raises DataDirectoryError."""
        ingest = cls(config, Journal.open(config.data_dir, mode=config.journal_mode))
        try:
            ingest._restore()
        except (sqlite3.Error, msgspec.MsgspecError, RequestError) as error:
            ingest.journal.close()
            raise DataDirectoryError(
                f"cannot read back the journal {ingest.journal.path}: {error}; put a good copy in its place, "
                "or move it away to start anew"
            ) from error
        ingest._working = True
        ingest._thread.start()
        return ingest

    async def submit(self, signal: Signal, body: bytes, batch: Batch) -> Reply:
        """Journal and apply one request. Raises Overloaded or JournalUnavailable; then nothing was taken."""
        only_details = all(span.name in schema.DETAIL_SPANS for span in batch.spans)
        if only_details and not batch.points and not batch.malformed:
            return Reply()  # nothing that the ledger keeps
        if self.queued_bytes > MAX_QUEUED_BYTES:
            raise Overloaded("more telemetry is waiting than the journal can take; try again")
        loop = asyncio.get_running_loop()
        request = Submission(
            event=Event(kind=signal, wall=time.time(), body=body),
            batch=batch,
            answer=loop.create_future(),
            loop=loop,
        )
        self._submitted_bytes += len(body)
        self._queue.put(request)
        return await request.answer

    def close(self) -> None:
        """Take what was submitted, store the state, seal nothing early."""
        self._queue.put(None)
        self._thread.join()
        self._working = False
        try:
            self._checkpoint()
        except sqlite3.Error as error:  # the next start finds what was acknowledged among the events
            self._fail([], error)
        self.journal.close()

    @property
    def ready(self) -> bool:
        """Whether the writer is at work, and the journal takes what it is given."""
        return self._working and not self._journal_fails

    @property
    def queued_bytes(self) -> int:
        """What was submitted and not yet taken by the writer."""
        return self._submitted_bytes - self._taken_bytes

    # ---- restart

    def _restore(self) -> None:
        state, events = self.journal.load()
        self.ledger = Ledger(state, monotonic=time.monotonic())
        for event in events:
            self._replay(event)
        self.ledger.live = LiveGauges()  # nobody has repeated them to this process
        # What a crash kept from being stored; the rest is there already.
        self.journal.write([], self.ledger.outbox)
        self.ledger.outbox.clear()
        for whole in (False, True):  # one version of each run shows how much room is left for more
            for name in state.runs:
                self._load_window(name, whole=whole)
            self.ledger.changed.update(state.runs)
            self._settle()
        say(log, "restored", journal=self.journal.path, runs=len(state.runs), events=len(events))
        if self.journal.torn_frames:
            say(log, "journal tail torn", level=logging.WARNING, frames=self.journal.torn_frames)

    def _load_window(self, name: str, *, whole: bool) -> None:
        """What the window may have held; what had left it by time leaves it in the first turn."""
        self._windows.pop(name, None)
        window = self._window(name)
        ends = self.journal.newest_versions(name, 2)  # the partial one at the end, and the newest published
        newest = [*[sealed for sealed in ends if sealed.published][-1:], *ends[-1:]]
        most = self.budget.versions(name, ends[-1]) if whole and ends else 1
        kept = self.journal.newest_versions(name, most, stride=window.stride)
        shown = {(sealed.attempt, sealed.version): sealed for sealed in [*kept, *newest]}
        for _, sealed in sorted(shown.items()):
            window.add(sealed)
        every = max(shown, default=(0, 0))
        annexed = HARD_CAP if whole or not ends else 1
        for annex in self.journal.newest_annexes(name, annexed, stride=window.stride, every=every):
            window.add(annex)

    def _replay(self, event: Event) -> None:
        now = time.monotonic()
        match event.kind:
            case "traces" | "metrics":
                self._apply(otlp.decode(event.kind, event.body), event.wall)
            case "seal":
                self.ledger.seal(msgspec.json.decode(event.body, type=Seal), monotonic=now)
            case kind:
                self._carry_out(kind, msgspec.json.decode(event.body, type=RunDecision), event.wall)

    # ---- the writer thread

    def _write_until_closed(self) -> None:
        open_ = True
        while open_:
            requests, open_ = self._next_turn()
            try:
                self._turn(requests)
            except sqlite3.Error as error:
                self._fail(requests, error)
            except Exception as error:  # a defect of ours: nobody may wait for ever, and /readyz says so
                log.exception("the writer failed")
                self._working = False
                self._fail(requests, error)

    def _next_turn(self) -> tuple[list[Submission], bool]:
        """What has arrived, up to a bound; empty after a tick. False when the exporter closes."""
        requests: list[Submission] = []
        turn_bytes = 0
        timeout: float | None = TICK_SECONDS
        while turn_bytes < MAX_TURN_BYTES:
            try:
                request = self._queue.get(timeout=timeout) if timeout else self._queue.get_nowait()
            except queue.Empty:
                break
            if request is None:
                return requests, False
            requests.append(request)
            turn_bytes += len(request.event.body)
            timeout = None
        self._taken_bytes += turn_bytes
        return requests, True

    def _turn(self, requests: list[Submission]) -> None:
        if self._journal_fails:  # found out without a sender: who is not ready may get none
            self.journal.prove_room(self._refused_bytes)
        self._flush()  # decisions that an earlier turn could not store come first
        self.journal.write([request.event for request in requests], [])
        self._event_bytes += sum(len(request.event.body) for request in requests)
        replies = [self._apply(request.batch, request.event.wall) for request in requests]
        self.ledger.arrivals.now = time.monotonic()
        self._decide(time.time())
        self._settle()
        for request, reply in zip(requests, replies, strict=True):
            request.settle(reply)
            self._losses.say_refusal(reply)
        if self._journal_fails:
            self._journal_fails = False
            say(log, "journal writable again")
        aged = time.monotonic() - self._checkpointed
        oldest = min(CHECKPOINT_SECONDS, self._retention_seconds / 10)
        if self._event_bytes > CHECKPOINT_BYTES or aged > oldest:
            self._checkpoint()

    def _apply(self, batch: Batch, wall: float) -> Reply:
        try:
            return self.ledger.apply(batch, wall=wall, monotonic=time.monotonic())
        except Exception:  # a defect of ours must cost this request, not the writer, nor every restart
            log.exception("a request could not be applied and is left out")
            return Reply(
                rejected=len(batch.spans) + len(batch.points),
                reason="internal error; the exporter's log has it",
            )

    def _fail(self, requests: list[Submission], error: Exception) -> None:
        if not self._journal_fails:  # once per outage, not once per turn
            self._journal_fails = True
            facts = {"journal": self.journal.path, "error": error, "senders": "told to come back"}
            say(log, "journal error", level=logging.ERROR, **facts)
        self._refused_bytes = sum(len(request.event.body) for request in requests) or self._refused_bytes
        for request in requests:
            request.settle(JournalUnavailable(f"the journal cannot be written: {error}"))

    def _decide(self, wall: float) -> None:
        for run in self._due_runs():
            try:
                self._look_after(run, wall)
            except Exception:  # a defect of ours must cost this run, not the others
                self._losses.say_failure(run)

    def _look_after(self, run: Run, wall: float) -> None:
        while seal := next_seal(run, self.ledger.arrivals, grace=self.config.grace_seconds, wall=wall):
            # Carried out first: what failed must not be in the journal, where every restart would meet it.
            self.ledger.seal(seal, monotonic=self.ledger.arrivals.now)
            self._unstored.append(Event(kind="seal", wall=wall, body=msgspec.json.encode(seal)))
            self._losses.say_seal(run, seal, self.ledger.state.runs.values())
        self._place()
        for kind, decision in self._decide_run(run, wall):
            self._losses.say_decision(run, kind, wall, early=decision.count)
            self._carry_out(kind, decision, wall)
            self._unstored.append(Event(kind=kind, wall=wall, body=msgspec.json.encode(decision)))

    def _due_runs(self) -> list[Run]:
        """Those of which something arrived; all of them once per tick, for what time alone decides."""
        now, runs = self.ledger.arrivals.now, self.ledger.state.runs
        if now - self._all_decided < TICK_SECONDS:
            return [runs[name] for name in sorted(self.ledger.changed) if name in runs]
        self._all_decided = now
        return list(runs.values())

    def _decide_run(self, run: Run, wall: float) -> Iterator[tuple[str, RunDecision]]:
        heard = max(run.last_seen, self._started)  # before that nobody listened
        if run.ended_at is None and wall - heard > self.config.abandon_after_seconds:
            yield "abandon", RunDecision(run=run.name)
        over = run.status == "lost" or not any(attempt.is_open for attempt in run.attempts.values())
        if over and run.ended_at is not None and wall - run.ended_at > self.config.finished_run_grace_seconds:
            yield "forget", RunDecision(run=run.name)
            return
        window = self._window(run.name)
        if not window.versions:
            return
        most = self.budget.versions(run.name, window.versions[-1])
        interval = self.scrape_interval()
        early = window.trim(wall=wall, scrape_interval=interval, most=most, started=self._started)
        if early or window.stride != run.stride:
            series = early * catalog.version_series(len(window.versions[-1].rollouters))
            self.budget.dropped["series_budget"] += series
            yield "evict", RunDecision(run=run.name, count=early, stride=window.stride)

    def _carry_out(self, kind: str, decision: RunDecision, wall: float) -> None:
        match kind:
            case "abandon":
                self.ledger.abandon(decision.run, wall=wall)
            case "forget":
                self.ledger.forget(decision.run)
                self._windows.pop(decision.run, None)
            case "evict":
                run = self.ledger.state.runs[decision.run]
                run.stride = decision.stride
                run.count(catalog.VERSIONS_EVICTED, by=decision.count)
                if decision.count:
                    run.stamp(catalog.LAST_EVICTED, wall)
                self.ledger.changed.add(decision.run)
            case _:
                raise ValueError(f"unknown event {kind!r} in the journal")

    def _place(self) -> None:
        """Adds what the ledger has sealed to the version windows, before evictions are decided. Seal and eviction are
        then in one transaction, and a crash cannot fall between them."""
        for item in self.ledger.outbox[self._placed :]:
            if item.run in self.ledger.state.runs and not isinstance(item, RunSummary):
                self._window(item.run).add(item)
                if isinstance(item, SealedWindow) and len(item.rollouters) > catalog.MAX_ROLLOUTERS:
                    self.budget.dropped["rollouters"] += len(item.rollouters) * catalog.ROLLOUTER_SERIES
        self._placed = len(self.ledger.outbox)

    def _flush(self) -> None:
        """Store the decisions and what they sealed; both stay pending until the disk takes them."""
        if self._unstored or self.ledger.outbox:
            self.journal.write(self._unstored, self.ledger.outbox)
            self._event_bytes += sum(len(event.body) for event in self._unstored)
            self._unstored.clear()
            self._place()
            self._placed = 0
            self.ledger.outbox.clear()

    def _settle(self) -> None:
        self._flush()
        state, shown = self.ledger.state, self.snapshot
        of_no_run = (state.unattributed, state.probes) != (shown.unattributed, shown.probes)
        if self.ledger.changed or of_no_run:
            self.snapshot = self._take_snapshot()
            self.ledger.changed.clear()

    def _checkpoint(self) -> None:
        self._flush()
        ended_before = time.time() - self._retention_seconds
        self.ledger.expire(ended_before)
        self.journal.checkpoint(self.ledger.state, [run.summary for run in self.ledger.state.runs.values()])
        self.journal.expire(ended_before)
        self._event_bytes = 0
        self._checkpointed = time.monotonic()

    # ---- the page

    def _take_snapshot(self) -> Snapshot:
        known = self._runs
        self._runs = {
            name: take_run(self.ledger, run, self._window(name))
            if name in self.ledger.changed or name not in known
            else known[name]
            for name, run in self.ledger.state.runs.items()
        }
        return Snapshot(
            runs=self.budget.share(self._runs, now=time.time()),
            unattributed=dict(self.ledger.state.unattributed),
            probes=self.ledger.state.probes,
        )

    def _window(self, run: str) -> VersionWindow:
        if run not in self._windows:
            self._windows[run] = VersionWindow(
                fewest=self.config.window_versions,
                hold_seconds=self.config.window_seconds,
                stride=self.ledger.state.runs[run].stride,
            )
        return self._windows[run]
