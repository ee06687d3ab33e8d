"""The queue actor: owns the sample account, the prompts, and the finished samples until a step has consumed them.

    rollouter -- acquire --> tickets, or the reason why there are none    (waits while the reason stays the same)
    rollouter -- put ------> finished samples, failures
    trainer   -- take -----> the samples of a step                        (waits until there are enough)
    trainer   -- settle, on_sync

Every wait is on `_changed`, and every change notifies it: no wake-up can be lost. No method blocks the loop; the
environment is the user's code and draws in a thread of its own.
"""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from runtime.account import AccountView, SampleAccount
from runtime.config import RunConfig
from runtime.environment import load_environment
from runtime.generated_cohort import GeneratedCohort, GeneratedCohorts
from runtime.reports import QueueReport
from runtime.run_end import end_telemetry
from runtime.telemetry import schema
from runtime.telemetry.emitter import Telemetry
from runtime.telemetry.instruments import Points
from runtime.types import Prompt, Sample, Ticket

CLOSED = "closed"
"""The pause that lasts: the run has ended."""

_GAUGES = (
    schema.GAUGE_IN_FLIGHT,
    schema.GAUGE_QUEUED,
    schema.GAUGE_QUEUE_CAPACITY,
    schema.GAUGE_QUEUE_OLDEST_AGE,
    schema.GAUGE_BUDGET_USED,
    schema.GAUGE_BUDGET_LIMIT,
)
_SUMS = (
    schema.SUM_FED,
    schema.SUM_GENERATED,
    schema.SUM_SAMPLES,
    schema.SUM_REISSUED,
    schema.SUM_DUPLICATE_RESULTS,
)


class Grant(NamedTuple):
    """Tickets; or none, and why: the rollouter state to wait in, or CLOSED."""

    tickets: list[Ticket]
    pause: str


class TakenBatch(NamedTuple):
    """The samples of one step. Fewer than asked for: the data has ended; none: all of it has been taken."""

    samples: list[Sample]
    queue_wait_seconds: list[float]
    """Of each sample, from its arrival until now."""


class SampleQueue:
    """The actor; see the head of this file."""

    def __init__(self, config: RunConfig) -> None:
        self._account = SampleAccount(
            budget=config.ticket_budget, capacity=config.queue_capacity or config.ticket_budget
        )
        self._environment = load_environment(config.environment, seed=config.seed)
        self._environment_thread = ThreadPoolExecutor(1, thread_name_prefix="environment")
        self._cohorts = GeneratedCohorts()
        self._samples: dict[int, Sample] = {}
        self._arrived_ns: dict[int, int] = {}  # in the order of arrival
        self._issuing = asyncio.Lock()
        self._changed = asyncio.Condition()
        self._data_ended = False
        self._closed = False
        self._param_version = 0
        self._last_failure = ""
        self._telemetry = Telemetry(config.telemetry, config.identity(schema.QUEUE))
        self._clock = self._telemetry.clock
        # One tuple, replaced as a whole: the metrics thread never sees half of a change.
        self._reading: tuple[AccountView, int | None] = (self._account.view(), None)
        self._telemetry.observe_account(self._points, gauges=_GAUGES, sums=_SUMS)

    async def acquire(self, count: int, known_pause: str) -> Grant:
        """Up to `count` tickets. While there is none, returns as soon as the reason is not `known_pause` any more."""
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: not self._pause() or self._pause() != known_pause)
            # One at a time: the room that was seen is still there when the prompts have been drawn.
            async with self._issuing:
                pause = self._pause()
                if not pause:
                    if tickets := await self._issue(count):
                        return Grant(tickets, "")
                elif pause != known_pause:
                    return Grant([], pause)

    async def put(self, samples: Sequence[Sample], failures: Sequence[tuple[int, str]]) -> None:
        """Finished samples, and tickets that failed, each with its error. The first result of a ticket wins."""
        if self._closed:
            return
        now_ns = self._clock.now_ns()
        for sample in samples:
            ticket_id = sample.ticket.ticket_id
            if self._account.put(ticket_id):
                self._samples[ticket_id] = sample
                self._arrived_ns[ticket_id] = now_ns
                self._cohorts.finished(sample, now_ns)
        for ticket_id, error in failures:
            if self._account.discard(ticket_id, "failed"):
                self._cohorts.failed(ticket_id)
                self._last_failure = error
        self._emit(self._cohorts.pop_closed())
        await self._notify()

    async def take(self, count: int) -> TakenBatch:
        """`count` samples in the order in which they came; fewer if the data has ended and nothing is in flight."""

        def is_ready() -> bool:
            no_more = self._data_ended and not self._account.in_flight
            return self._account.ready >= count or no_more or self._closed

        async with self._changed:
            await self._changed.wait_for(is_ready)
        ticket_ids = self._account.take(count)
        now_ns = self._clock.now_ns()
        samples = [self._samples[ticket_id] for ticket_id in ticket_ids]
        for sample in samples:
            self._trace_wait(sample, now_ns)
        waits = [(now_ns - self._arrived_ns[ticket_id]) / 1e9 for ticket_id in ticket_ids]
        return TakenBatch(samples, waits)

    async def settle(self, trained: Sequence[int], filtered: Sequence[int]) -> None:
        """The step that took these tickets has ended."""
        if self._closed:
            return
        self._account.settle(trained, "trained")
        self._account.settle(filtered, "filtered_zero_variance")
        for ticket_id in (*trained, *filtered):
            del self._samples[ticket_id], self._arrived_ns[ticket_id]
        await self._notify()

    async def on_sync(self, version: int) -> None:
        """Every rollouter serves `version` or a newer one."""
        self._param_version = version
        self._account.sync()
        self._cohorts.synced(version)
        self._emit(self._cohorts.pop_closed())
        await self._notify()

    async def status(self) -> AccountView:
        return self._reading[0]

    async def last_failure(self) -> str:
        """The error of the last sample that failed; empty if none has."""
        return self._last_failure

    async def close(self, status: str) -> QueueReport:
        """End the account, wake everybody, and send what telemetry still holds."""
        self._closed = True
        self._account.close()
        self._arrived_ns.clear()
        self._emit(self._cohorts.pop_all())
        await self._notify()
        self._environment_thread.shutdown(wait=False)
        stats = await end_telemetry(self._telemetry, status=status, param_version=self._param_version)
        return QueueReport(account=self._reading[0], telemetry=stats)

    def _pause(self) -> str:
        """Why no ticket can be had; empty if one can."""
        if self._closed:
            return CLOSED
        return self._account.pause() or ("waiting_prompts" if self._data_ended else "")

    async def _issue(self, count: int) -> list[Ticket]:
        """Tickets for as many prompts as there is room for; none if the data or the run has just ended."""
        count = min(count, self._account.room)
        loop = asyncio.get_running_loop()
        prompts = await loop.run_in_executor(self._environment_thread, self._draw, count)
        if self._closed:
            return []
        if len(prompts) < count:
            self._data_ended = True
        tickets = [Ticket(ticket_id=self._account.acquire(), prompt=prompt) for prompt in prompts]
        for ticket in tickets:
            self._cohorts.issued(ticket.ticket_id)
        await self._notify()
        return tickets

    def _draw(self, count: int) -> list[Prompt]:
        prompts: list[Prompt] = []
        while len(prompts) < count and (prompt := self._environment.draw()) is not None:
            prompts.append(prompt)
        return prompts

    async def _notify(self) -> None:
        oldest_ns = next(iter(self._arrived_ns.values()), None)
        self._reading = (self._account.view(), oldest_ns)
        async with self._changed:
            self._changed.notify_all()

    def _emit(self, cohorts: Sequence[GeneratedCohort]) -> None:
        for cohort in cohorts:
            self._telemetry.control(
                schema.GENERATED_COHORT,
                param_version=cohort.version,
                start_ns=cohort.start_ns,
                end_ns=self._clock.now_ns(),
                attributes={schema.SAMPLE_COUNT: cohort.sample_count},
                values=cohort.values(),
            )

    def _trace_wait(self, sample: Sample, now_ns: int) -> None:
        """One span for the sample, in the trace of its first response that is sampled."""
        parent = next((response.traceparent for response in sample.responses if response.traceparent), "")
        ticket_id = sample.ticket.ticket_id
        self._telemetry.detail(
            schema.QUEUE_WAIT,
            start_ns=self._arrived_ns[ticket_id],
            end_ns=now_ns,
            attributes={schema.SAMPLE_ID: ticket_id},
            parent=parent,
        )

    def _points(self) -> Mapping[str, Points]:
        """The account's instruments; on the metrics thread."""
        view, oldest_ns = self._reading
        age_seconds = 0.0 if oldest_ns is None else (self._clock.now_ns() - oldest_ns) / 1e9
        single: dict[str, float] = {
            schema.GAUGE_IN_FLIGHT: view.in_flight,
            schema.GAUGE_QUEUED: view.queued,
            schema.GAUGE_QUEUE_CAPACITY: view.capacity,
            schema.GAUGE_QUEUE_OLDEST_AGE: age_seconds,
            schema.GAUGE_BUDGET_USED: view.budget_used,
            schema.GAUGE_BUDGET_LIMIT: view.budget_limit,
            schema.SUM_FED: view.fed,
            schema.SUM_GENERATED: view.generated,
            schema.SUM_REISSUED: view.reissued,
            schema.SUM_DUPLICATE_RESULTS: view.duplicate_results,
        }
        by_outcome = [(getattr(view, outcome), {schema.OUTCOME: outcome}) for outcome in schema.OUTCOMES]
        return {name: [(value, {})] for name, value in single.items()} | {schema.SUM_SAMPLES: by_outcome}
