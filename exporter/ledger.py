"""The version ledger: takes the records of a request, one by one, and says of each whether it is good, late or refused.

    span -> control.read_record -> Ledger.apply -> an open window, an annex, a counter     (this file)
    open window -> sealing.next_seal -> Ledger.seal -> SealedWindow                        (sealing.py, fold.py)

Deterministic: the same requests and seals in the same order give the same state, so that the journal can replay
them. What only this process's clock knows (when a source was heard, when a grace began) lives in `Arrivals`.
"""

import logging
from typing import Final

from exporter import catalog
from exporter.arrivals import Arrivals
from exporter.attempts import RUN_ENDERS, close_left_over, find_attempt, late_reason, refuse_pending
from exporter.attributes import NS
from exporter.control import Record, read_record, read_seq
from exporter.errors import Late, Rejected
from exporter.fold import fold_annex, fold_window
from exporter.live import LiveGauges
from exporter.open_windows import drop_unmade, hold, open_window, take_out
from exporter.points import apart, apply_points, roll_back
from exporter.ranges import Ranges
from exporter.records import AttributeValue, Batch, Point, Reply, Source, Span
from exporter.sealing import Hole, Seal
from exporter.senders import find_sender, known_run
from exporter.state import (
    MAX_SYNCS,
    MAX_UNSEQUENCED,
    Annex,
    Attempt,
    Probe,
    Run,
    RunSummary,
    SealedWindow,
    SourceLife,
    State,
)
from exporter.tally import admit_names, count_values, drop_foreign_histograms, refuse, refuse_own_values
from runtime.telemetry import schema

log = logging.getLogger(__name__)

MAX_PENDING: Final = 64
MAX_FINISHED: Final = 1000
_CONTROLLER_THEN_TRAINER: Final = (schema.CONTROLLER, schema.TRAINER)
"""Who said that the run ended, and who says it now: a controller speaks for a dead trainer only."""


class Ledger:
    """`outbox` holds the sealed windows, annexes and ended runs that the journal has yet to store; whoever stores
    them clears it. `changed` names the runs whose page has changed since the last snapshot."""

    def __init__(self, state: State, *, monotonic: float) -> None:
        self.state = state
        self.arrivals = Arrivals(monotonic)
        self.live = LiveGauges()
        self.outbox: list[SealedWindow | Annex | RunSummary] = []
        self.changed: set[str] = set()
        drop_foreign_histograms(state)

    def apply(self, batch: Batch, *, wall: float, monotonic: float) -> Reply:
        """Take one request. A record that is refused or late costs no other one."""
        self.arrivals.now = monotonic
        complaints = [("", f"malformed: {reason}") for reason in batch.malformed]
        for _ in batch.malformed:
            self._refuse(None, "malformed", wall)
        for span in batch.spans:
            try:
                self._take_span(span, wall)
            except (Rejected, Late) as complaint:
                complaints.append((span.source.run, str(complaint)))
        for points in apart(batch.points):
            try:
                self._take_points(points, wall)
            except Rejected as complaint:
                complaints += [(points[0].source.run, str(complaint))] * len(points)
        run, reason = complaints[0] if complaints else ("", "")
        return Reply(rejected=len(complaints), reason=reason, run=run)

    def seal(self, seal: Seal, *, monotonic: float) -> None:
        """Carry out a decision of `sealing.next_seal`."""
        self.arrivals.now = monotonic
        run = self.state.runs[seal.run]
        self.changed.add(run.name)
        for hole in seal.holes:
            self._give_up(run, hole, seal.wall)
        if seal.version:
            self._seal_window(run, run.attempts[seal.attempt], seal)
        if seal.attempt in run.attempts:
            close_left_over(self.state, run, run.attempts[seal.attempt], seal.wall)

    def abandon(self, run_name: str, *, wall: float) -> None:
        """Nobody was heard of for too long: the run is lost."""
        run = self.state.runs[run_name]
        roll_back(run)
        self._end_run(run, "lost", wall)

    def forget(self, run_name: str) -> None:
        """A finished run leaves the page; history keeps it, and the ledger still knows what it was."""
        run = self.state.runs.pop(run_name)
        self.outbox.append(run.summary)
        self.state.finished[run_name] = run
        for oldest in list(self.state.finished)[:-MAX_FINISHED]:
            self._drop_finished(oldest)
        self.live.forget_run(run_name)
        self.arrivals.forget_run(run_name)
        self.changed.add(run_name)

    def expire(self, ended_before: float) -> None:
        """Forget for good the runs whose history the journal drops."""
        for name, run in list(self.state.finished.items()):
            if run.ended_at is not None and run.ended_at < ended_before:
                self._drop_finished(name)
                self.arrivals.forget_run(name)

    # ---- one record

    def _take_points(self, points: list[Point], wall: float) -> None:
        first, run = points[0], None
        try:
            run, life = self._sender(first.source, first.attributes, first.time_ns, wall)
            apply_points(run, life, self.live, points, self.arrivals.now)
        except Rejected as refusal:
            self._refuse(run or known_run(self.state, first.source), refusal.reason, wall, by=len(points))
            raise

    def _take_span(self, span: Span, wall: float) -> None:
        if span.name == schema.PROBE:
            self.state.take_probe(Probe(trace_id=span.trace_id[:16].hex(), arrived_at=wall))
        if span.name == schema.PROBE or span.name in schema.DETAIL_SPANS:
            return
        run: Run | None = None
        try:
            run, life = self._sender(span.source, span.attributes, span.end_ns, wall)
            if span.name in schema.CONTROL_SPANS:
                self._take_record(run, life, _read(span, life), wall)
            else:
                run.count(catalog.UNKNOWN_SPANS)
        except Rejected as refusal:
            self._refuse(run or known_run(self.state, span.source), refusal.reason, wall)
            raise

    def _sender(
        self, source: Source, attributes: dict[str, AttributeValue], time_ns: int, wall: float
    ) -> tuple[Run, SourceLife]:
        run, life = find_sender(self.state, source, attributes, wall)
        self.arrivals.hear(run.name, source.source_id)
        self.arrivals.keep_sources(run.name, run.sources)
        self.changed.add(run.name)
        life.last_seen = wall
        life.clock_offset = wall - time_ns / NS
        return run, life

    def _take_record(self, run: Run, life: SourceLife, record: Record | None, wall: float) -> None:
        if record is None:
            return
        fills_hole = record.seq is not None and record.seq < life.received.last
        if self._is_duplicate(life, record):
            return
        if record.kind == schema.RUN_END:
            life.ended = True
            self.live.forget_source(run.name, record.source_id)
        try:
            given_up = record.seq is not None and record.seq in life.lost
            if given_up and record.kind not in schema.ANNEX_SPANS:
                raise Late("sealed", f"seq {record.seq} of {record.source_id!r} was given up as lost")
            attempt = find_attempt(self.state, run, life, record, wall)
            if run.ended_at is None:
                self.state.bring_back(run)
            if late := late_reason(run, attempt, record, fills_hole=fills_hole):
                raise Late(late, f"attempt {attempt.number} of run {run.name!r} is over")
            if record.version in attempt.annexes.get(record.kind, ()):
                return  # a second one of its kind
            _TAKE[record.kind](self, run, attempt, life, admit_names(run, record, wall), wall)
            close_left_over(self.state, run, attempt, wall)
        except Late as complaint:
            run.count(catalog.LATE_RECORDS, complaint.reason)
            raise
        count_values(run, record, wall)

    def _is_duplicate(self, life: SourceLife, record: Record) -> bool:
        """Note the record's identity; True if it was there already."""
        if record.seq is None:
            if record.identity in life.unsequenced:
                return True
            life.unsequenced[record.identity] = None
            while len(life.unsequenced) > MAX_UNSEQUENCED:
                del life.unsequenced[next(iter(life.unsequenced))]
            return False
        if record.seq in life.received:
            return True
        life.received.add(record.seq)
        return False

    # ---- the kinds of records

    def _take_step(self, run: Run, attempt: Attempt, life: SourceLife, record: Record, wall: float) -> None:
        if record.version <= attempt.sealed:
            raise Late("sealed", f"version {record.version} of run {run.name!r} is sealed")
        if record.step in attempt.steps:
            raise Rejected("duplicate_step", f"step {record.step} of attempt {attempt.number} came before")
        window = open_window(attempt, record.version)
        hold(self.state, run, attempt, record)
        window.steps[record.step] = record
        attempt.steps.add(record.step)
        seq = record.seq or 0
        life.first_step = seq if life.first_step is None else min(seq, life.first_step)
        run.count(catalog.TRAIN_STEPS)
        run.count(catalog.TOKENS, "trained", by=record.token_count or 0)
        run.stamp(catalog.LAST_TRAIN_STEP, wall)

    def _take_sync(self, run: Run, attempt: Attempt, life: SourceLife, record: Record, wall: float) -> None:
        position = record.seq if record.seq is not None else record.end_ns
        before = [version for seq, version in life.syncs if seq < position]
        if before and record.version <= before[-1]:
            raise Rejected("version_backward", f"sync of version {record.version} after that of {before[-1]}")
        opens = record.steps_in_window > 0
        if opens and record.version <= attempt.sealed:
            raise Late("sealed", f"version {record.version} of run {run.name!r} is sealed")
        window = attempt.open.get(record.version)
        if opens and window is not None and window.sync is not None:
            raise Rejected(
                "version_backward", f"version {record.version} was synced before, by another source"
            )
        life.syncs = sorted([*life.syncs, (position, record.version)])[-MAX_SYNCS:]
        attempt.syncs = sorted({*attempt.syncs, record.version})
        if not attempt.is_open:  # nothing waits for a grace that one of them began
            self._forget_syncs(run, attempt, attempt.syncs[-1] - 2)
        self.arrivals.sync_arrived(run.name, attempt.number, record.version)
        if opens:
            open_window(attempt, record.version).sync = record
        else:
            refuse_own_values(run, record, wall)
        run.stamp(catalog.LAST_VERSION, wall)
        for phase, duration in record.phase_ns.items():
            run.count(catalog.SYNC_PHASE_SECONDS, phase, by=duration / NS)
        self._publish(run, attempt, record.version, wall)

    def _publish(self, run: Run, attempt: Attempt, version: int, wall: float) -> None:
        """The version is out, and what was said of it before can be shown."""
        attempt.published = max(version, attempt.published or 0)
        waiting, attempt.pending = attempt.pending, []
        for annex in waiting:
            self._store_annex(run, attempt, annex, wall)

    def _take_rollouter_window(
        self, run: Run, attempt: Attempt, life: SourceLife, record: Record, _wall: float
    ) -> None:
        life.slot = record.rollouter
        if record.version <= attempt.sealed:
            raise Late("sealed", f"version {record.version} of run {run.name!r} is sealed")
        window = open_window(attempt, record.version)
        hold(self.state, run, attempt, record)
        window.rollouters.append(record)
        settled = attempt.settled.setdefault(record.rollouter, Ranges())
        settled.add_range(record.version_from or record.version, record.version)

    def _take_annex(self, run: Run, attempt: Attempt, _life: SourceLife, record: Record, wall: float) -> None:
        if record.version > (attempt.published or 0):
            if attempt.end is not None or attempt.number < run.attempt:
                raise Rejected(
                    "bad_value", f"version {record.version} of run {run.name!r} was never published"
                )
            if len(attempt.pending) >= MAX_PENDING:
                raise Rejected("limit", f"{MAX_PENDING} annexes wait for their version already")
        attempt.annexes.setdefault(record.kind, Ranges()).add(record.version)
        if record.kind == schema.VALIDATION:
            run.stamp(catalog.LAST_VALIDATION, wall)
        if record.kind == schema.CHECKPOINT:
            run.stamp(catalog.LAST_CHECKPOINT, wall)
        self._store_annex(run, attempt, record, wall)

    def _store_annex(self, run: Run, attempt: Attempt, record: Record, wall: float) -> None:
        if record.version > (attempt.published or 0):
            attempt.pending.append(record)
        else:
            self.outbox.append(fold_annex(run.name, attempt, record, now=wall))

    def _take_run_end(
        self, run: Run, attempt: Attempt, _life: SourceLife, record: Record, wall: float
    ) -> None:
        said = attempt.end
        if record.role not in RUN_ENDERS or (said and (said.role, record.role) != _CONTROLLER_THEN_TRAINER):
            refuse_own_values(run, record, wall)
            return
        attempt.end = record
        self.arrivals.end_arrived(run.name, attempt.number)
        if record.version > (attempt.published or 0):  # its sync is late or lost
            self._publish(run, attempt, record.version, wall)
        refuse_pending(run, attempt, wall)
        self._end_run(run, record.status, wall)

    def _end_run(self, run: Run, status: str, wall: float) -> None:
        run.status = status
        run.ended_at = wall
        self.live.forget_run(run.name)
        self.changed.add(run.name)

    # ---- sealing

    def _give_up(self, run: Run, hole: Hole, wall: float) -> None:
        life = run.sources[hole.source_id]
        life.lost.add_range(hole.first, hole.last)
        run.stamp(catalog.LAST_LOST, wall)
        run.count(catalog.LOST_RECORDS, life.role, by=hole.last - hole.first + 1)
        if life.role == schema.TRAINER and life.attempt in run.attempts:
            for window in run.attempts[life.attempt].open.values():
                window.lost_records = True

    def _seal_window(self, run: Run, attempt: Attempt, seal: Seal) -> None:
        window = take_out(self.state, attempt, seal.version)
        below = [version for version in attempt.open if version < seal.version]
        drop_unmade(self.state, run, attempt, below, "sealed")
        ends = [record.end_ns for record in (*window.steps.values(), *([window.sync] if window.sync else []))]
        end_ns = window.sync.end_ns if window.sync is not None else max(ends)
        # Over all attempts: a resume, its clock behind or not, goes on where the series of the run stand.
        newest_ns = max(each.timestamp_ns for each in run.attempts.values())
        attempt.timestamp_ns = max(end_ns, newest_ns + NS // 1000)  # a millisecond later, at least
        attempt.sealed = seal.version
        self._forget_syncs(run, attempt, seal.version - 2)
        sealed = fold_window(
            run.name,
            attempt,
            seal.version,
            window,
            reasons=seal.reasons,
            timestamp_ns=attempt.timestamp_ns,
            now=seal.wall,
        )
        run.count(catalog.VERSIONS_SEALED, "false" if seal.reasons else "true")
        for reason in seal.reasons:
            run.count(catalog.VERSIONS_INCOMPLETE, reason)
        if set(seal.reasons) - {"run_end"} and "new_attempt" not in seal.reasons:
            run.stamp(catalog.LAST_INCOMPLETE, seal.wall)
        self.outbox.append(sealed)

    def _forget_syncs(self, run: Run, attempt: Attempt, below: int) -> None:
        if attempt.syncs and attempt.syncs[0] < below:
            attempt.syncs = [version for version in attempt.syncs if version >= below]
            self.arrivals.forget_syncs(run.name, attempt.number, below)

    def _refuse(self, run: Run | None, reason: str, wall: float, *, by: int = 1) -> None:
        if run is None:
            self.state.unattributed[reason] = self.state.unattributed.get(reason, 0) + by
        else:
            refuse(run, reason, wall, by=by)
            self.changed.add(run.name)

    def _drop_finished(self, name: str) -> None:
        run = self.state.finished.pop(name)
        self.state.held -= sum(attempt.held for attempt in run.attempts.values())


def _read(span: Span, life: SourceLife) -> Record | None:
    """The record of a span; None if it was refused before. A refused one has used up its seq: it is no hole."""
    try:
        return read_record(span)
    except Rejected:
        seq = read_seq(span)
        if seq is not None:
            if seq in life.received:
                return None
            life.received.add(seq)
        raise


_TAKE: Final = {
    schema.TRAIN_STEP: Ledger._take_step,
    schema.WEIGHT_SYNC: Ledger._take_sync,
    schema.ROLLOUTER_WINDOW: Ledger._take_rollouter_window,
    schema.VALIDATION: Ledger._take_annex,
    schema.CHECKPOINT: Ledger._take_annex,
    schema.GENERATED_COHORT: Ledger._take_annex,
    schema.RUN_END: Ledger._take_run_end,
}
