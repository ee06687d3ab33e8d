"""The rollouter actor: tickets in, scored samples out, new weights between any two tokens.

            feed                    decode                          deliver
    queue ----> _arrived (tickets) ----> engine ----> _finished ----> score ----> queue
      waits for:  a ticket          a ticket or weights      a finished group
      woken by:   put, sync, refund feed, load_weights       decode

Three loops on one event loop. The engine steps in one thread and the user's scorer in another, so that the actor
answers at any moment. Each loop clears its event before it looks for work: no wake-up can be lost.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from runtime.config import RunConfig
from runtime.environment import load_environment
from runtime.errors import EnvironmentFailedError
from runtime.race import race
from runtime.reports import RollouterReport, RollouterStatus, StateTimes
from runtime.run_end import end_telemetry
from runtime.sample_queue import CLOSED, Grant
from runtime.scorer import FinishedGroup, Scored, Scorer
from runtime.state_instruments import observe_states
from runtime.telemetry import schema
from runtime.telemetry.emitter import Telemetry
from runtime.telemetry.partial import Partial
from runtime.telemetry.state_clock import StateClock, Window
from runtime.types import Sample, Ticket
from runtime.weight_sync import Arrays, LoadReport

if TYPE_CHECKING:
    from runtime.engine import Engine

T = TypeVar("T")


@dataclass(kw_only=True, slots=True)
class PendingLoad:
    """Weights that wait for the gap between two tokens."""

    version: int
    arrays: Arrays
    since_ns: int
    loaded: asyncio.Future[LoadReport]


class Rollouter:
    """One slot. `run` lives as long as the actor works; all other methods answer at once or wait on an event."""

    def __init__(self, config: RunConfig, slot: str, queue: Any) -> None:
        self._config = config
        self._slot = slot
        self._queue = queue
        self._telemetry = Telemetry(config.telemetry, config.identity(schema.ROLLOUTER_ROLE, rollouter=slot))
        self._clock = self._telemetry.clock
        self._states = StateClock(schema.ROLLOUTER_STATES, start_ns=self._clock.now_ns())
        self._states.enter("starting", self._clock.now_ns())
        self._engine_thread = ThreadPoolExecutor(1, thread_name_prefix="engine")
        self._scorer_thread = ThreadPoolExecutor(1, thread_name_prefix="scorer")
        self._stop = asyncio.Event()
        self._end_status = schema.FAILED
        self._room = asyncio.Event()
        self._work = asyncio.Event()
        self._results = asyncio.Event()
        self._arrived: list[Ticket] = []
        self._finished: list[FinishedGroup] = []
        self._load: PendingLoad | None = None
        self._pause = ""
        self._activity: str | None = None
        self._param_version: int | None = None
        self._decoding = 0
        self._admitted_ns: dict[int, int] = {}
        self._tokens = 0
        self._tokens_at_window_start = 0
        self._generation_seconds: list[float] = []
        self._times = StateTimes()
        self._observe()

    async def run(self) -> RollouterReport:
        """Work until `stop`. Raises what made it impossible."""
        try:
            self._engine, self._scorer = await self._in_engine_thread(self._build)
            await race(self._stop.wait(), self._feed(), self._decode(), self._deliver())
        finally:
            self._states.enter("stopped", self._clock.now_ns())
            stats = await end_telemetry(
                self._telemetry, status=self._end_status, param_version=self._param_version or 0
            )
        return RollouterReport(
            slot=self._slot,
            times=self._times,
            active_intervals=self._states.active_intervals(),
            telemetry=stats,
        )

    async def stop(self, status: str) -> None:
        """The run ends as `status`; what still decodes is given up."""
        self._end_status = status
        self._stop.set()

    async def status(self) -> RollouterStatus:
        return RollouterStatus(
            slot=self._slot,
            state=self._states.state,
            decoding=self._decoding,
            param_version=self._param_version,
            telemetry=self._telemetry.stats(),
        )

    async def load_weights(self, version: int, weights: list[Awaitable[Arrays]]) -> LoadReport:
        """Returns when this rollouter serves `version`. In a list, Ray leaves the reference for us to fetch."""
        arrays = await weights[0]
        loaded: asyncio.Future[LoadReport] = asyncio.get_running_loop().create_future()
        self._load = PendingLoad(version=version, arrays=arrays, since_ns=self._clock.now_ns(), loaded=loaded)
        self._update_activity()
        self._work.set()
        return await loaded

    def _build(self) -> tuple["Engine", Scorer]:
        # Here: torch takes seconds to import, the actor answers meanwhile, and the driver never needs it.
        from runtime.device import actor_device
        from runtime.engine import Engine
        from runtime.model import build_model

        config, device = self._config, actor_device()
        model, tokenizer = build_model(config.model, seed=config.seed, device=device)
        # Slots must not sample the same responses; the stride keeps seeds of neighbouring runs apart.
        seed = config.seed + 1_000_003 * (1 + int(self._slot))
        engine = Engine(model, tokenizer, config.engine, seed=seed, device=device, rollouter=self._slot)
        environment = load_environment(config.environment, seed=config.seed)
        return engine, Scorer(environment, tokenizer, self._telemetry)

    # feed: tickets

    async def _feed(self) -> None:
        """Ask for as many tickets as fit beside what decodes. While there is none, wait in the state it is due to."""
        while True:
            self._room.clear()
            free = self._config.engine.capacity_responses - self._decoding
            room = free // self._config.group_size - len(self._arrived)
            if self._param_version is None or room < 1:
                await self._room.wait()
                continue
            grant: Grant = await self._queue.acquire.remote(room, self._pause)
            self._set_pause(grant.pause)
            if grant.pause == CLOSED:
                await self._stop.wait()
            self._arrived += grant.tickets
            self._work.set()

    def _set_pause(self, pause: str) -> None:
        now_ns = self._clock.now_ns()
        for condition, change in ((self._pause, self._states.leave), (pause, self._states.enter)):
            if condition in schema.ROLLOUTER_STATES:
                change(condition, now_ns)
        self._pause = pause
        self._update_activity()

    # decode: tokens and weights

    async def _decode(self) -> None:
        while True:
            self._work.clear()
            if self._load is not None and (self._config.partial_rollout or not self._decoding):
                await self._swap_weights(self._load)
            if self._arrived and self._may_admit():
                self._admit()
            if not self._decoding:
                await self._work.wait()
                continue
            tokens = self._decoding  # each response decodes one
            finished = await self._in_engine_thread(self._engine.step)
            self._tokens += tokens
            self._set_decoding(self._engine.decoding)
            if finished:
                self._collect(finished)

    def _may_admit(self) -> bool:
        """Without partial rollout, a load waits for the running responses: no new one may begin before it."""
        return self._load is None or self._config.partial_rollout

    def _admit(self) -> None:
        now_ns = self._clock.now_ns()
        tickets, self._arrived = self._arrived, []
        for ticket in tickets:
            self._engine.admit(ticket, self._config.group_size)
            self._admitted_ns[ticket.ticket_id] = now_ns
        self._set_decoding(self._engine.decoding)

    def _collect(self, samples: list[Sample]) -> None:
        now_ns = self._clock.now_ns()
        for sample in samples:
            admitted_ns = self._admitted_ns.pop(sample.ticket.ticket_id)
            self._generation_seconds.append((now_ns - admitted_ns) / 1e9)
            self._finished.append(FinishedGroup(sample, admitted_ns, now_ns))
        self._results.set()

    def _set_decoding(self, decoding: int) -> None:
        if decoding != self._decoding:
            self._decoding = decoding
            self._states.set_load(decoding, self._config.engine.capacity_responses, self._clock.now_ns())
            self._update_activity()
            self._room.set()

    def _update_activity(self) -> None:
        activity = None
        if self._decoding:
            admitting = self._may_admit() and (self._arrived or not self._pause)
            activity = "generating" if admitting else "draining"
        if activity != self._activity:
            now_ns = self._clock.now_ns()
            if activity:
                self._states.enter(activity, now_ns)
            if self._activity:
                self._states.leave(self._activity, now_ns)
            self._activity = activity

    async def _swap_weights(self, load: PendingLoad) -> None:
        start_ns = self._clock.now_ns()
        self._states.enter("weight_sync", start_ns)
        await self._in_engine_thread(lambda: self._engine.load(load.arrays, load.version))
        now_ns = self._clock.now_ns()
        self._states.leave("weight_sync", now_ns)
        previous, self._param_version = self._param_version, load.version
        idle_ratio = None
        if previous is None:
            # Start-up belongs to no window.
            self._states.leave("starting", now_ns)
            self._states.set_load(0, self._config.engine.capacity_responses, now_ns)
            self._states.discard_window(now_ns)
            self._room.set()
        else:
            window = self._states.close_window(now_ns)
            idle_ratio = window.idle_ratio
            self._emit_window(window, previous)
        self._load = None
        self._update_activity()
        load.loaded.set_result(
            LoadReport(
                served_before=previous is not None,
                idle_ratio=idle_ratio,
                wait_seconds=(start_ns - load.since_ns) / 1e9,
                load_seconds=(now_ns - start_ns) / 1e9,
            )
        )

    def _emit_window(self, window: Window, previous: int) -> None:
        assert self._param_version is not None
        attributes: dict[str, Any] = {schema.ROLLOUTER: self._slot, **window.rollouter_attributes()}
        if self._param_version > previous + 1:
            attributes[schema.PARAM_VERSION_FROM] = previous + 1
        tokens = self._tokens - self._tokens_at_window_start
        values: dict[str, float | Partial] = {
            "generation": Partial.of("generation", self._generation_seconds),
            "generated_tokens_per_second": tokens / (window.version_time_ns / 1e9),
        }
        self._telemetry.control(
            schema.ROLLOUTER_WINDOW,
            param_version=self._param_version,
            start_ns=window.start_ns,
            end_ns=window.end_ns,
            attributes=attributes,
            values=values,
        )
        self._generation_seconds = []
        self._tokens_at_window_start = self._tokens
        self._times = self._times.plus(StateTimes(window.active_ns, window.version_time_ns))

    # deliver: scores

    async def _deliver(self) -> None:
        """Score what has finished and send it; what finishes meanwhile goes together with the next."""
        loop = asyncio.get_running_loop()
        limit = self._config.failed_samples_in_a_row
        while True:
            self._results.clear()
            finished, self._finished = self._finished, []
            if not finished:
                await self._results.wait()
                continue
            scored: Scored = await loop.run_in_executor(self._scorer_thread, self._scorer.score, finished)
            await self._queue.put.remote(scored.samples, scored.failures)
            if self._scorer.failed_in_a_row >= limit:
                raise EnvironmentFailedError(
                    f"{limit} samples in a row could not be scored; the last: {scored.failures[-1][1]}"
                )

    def _observe(self) -> None:
        slot = {schema.ROLLOUTER: self._slot}
        observe_states(
            self._telemetry,
            self._states,
            schema.ROLLOUTER_STATES,
            gauge=schema.GAUGE_ROLLOUTER_STATE,
            seconds=schema.SUM_ROLLOUTER_STATE_SECONDS,
            labels=slot,
        )
        capacity = self._config.engine.capacity_responses
        telemetry = self._telemetry
        telemetry.observe_gauge(schema.GAUGE_ROLLOUTER_DECODING, lambda: [(self._decoding, slot)])
        telemetry.observe_gauge(schema.GAUGE_ROLLOUTER_CAPACITY, lambda: [(capacity, slot)])
        telemetry.observe_gauge(
            schema.GAUGE_ROLLOUTER_PARAM_VERSION, lambda: [(self._param_version or 0, slot)]
        )
        telemetry.observe_sum(schema.SUM_TOKENS_GENERATED, lambda: [(self._tokens, slot)])

    async def _in_engine_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._engine_thread, work)
