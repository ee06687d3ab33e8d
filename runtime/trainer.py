"""The trainer actor: samples in, optimizer steps, and a publication after every N of them.

    queue -- take --> assemble -> step -> (settle) --+--> next step
                                                     +--> after N steps: weight sync -> (on_sync)

What is in parentheses is told, a step's telemetry with it, while the trainer goes on, and answered before more is.

    waits for        woken by
    a batch          rollouters that put, or the end of the data
    a weight sync    the last rollouter that has loaded

A step belongs to the next version to be published; the step that triggers the publication is its last. The learner
works in a thread of its own, so that the actor answers at any moment.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import compress
from typing import TYPE_CHECKING, Any, TypeVar

from runtime.config import RunConfig
from runtime.environment import load_environment
from runtime.errors import EnvironmentFailedError
from runtime.progress import Lags, Progress
from runtime.race import race
from runtime.reports import TrainerReport, TrainerStatus, VersionReport
from runtime.run_end import end_telemetry
from runtime.sample_queue import TakenBatch
from runtime.state_instruments import observe_states
from runtime.telemetry import schema
from runtime.telemetry.emitter import Telemetry
from runtime.telemetry.partial import Partial
from runtime.telemetry.state_clock import StateClock, Window
from runtime.weight_sync import Arrays, SyncReport, sync_weights

if TYPE_CHECKING:
    from runtime.learner import StepResult

logger = logging.getLogger(__name__)
T = TypeVar("T")

WARM_START_SEED_OFFSET = 2**31
"""The warm start must not see the prompts of the training, whose seeds stay below it."""


class Trainer:
    """`run` trains until the versions are published, the data has ended or `stop`; `end` closes the books."""

    def __init__(self, config: RunConfig, queue: Any, rollouters: Mapping[str, Any]) -> None:
        self._config = config
        self._queue = queue
        self._rollouters = rollouters
        self._telemetry = Telemetry(config.telemetry, config.identity(schema.TRAINER))
        self._clock = self._telemetry.clock
        self._states = StateClock(schema.TRAINER_STATES, start_ns=self._clock.now_ns())
        self._states.enter("starting", self._clock.now_ns())
        self._learner_thread = ThreadPoolExecutor(1, thread_name_prefix="learner")
        self._stop = asyncio.Event()
        self._device: str | None = None
        self._told: asyncio.Future[list[None]] | None = None
        self._ended = False
        self._changed = asyncio.Condition()
        self._progress = Progress()
        observe_states(
            self._telemetry,
            self._states,
            schema.TRAINER_STATES,
            gauge=schema.GAUGE_TRAINER_STATE,
            seconds=schema.SUM_TRAINER_STATE_SECONDS,
            labels={},
        )

    async def run(self) -> str:
        """The status in which training ended, `completed` or `stopped`. Raises what made it impossible."""
        try:
            return await self._run()
        finally:
            self._ended = True
            await self._notify()

    async def _run(self) -> str:
        await self._in_learner_thread(self._build)
        await self._publish()
        while self._progress.version < self._config.versions:
            taken = await self._next_batch()
            if taken is None:
                return schema.STOPPED
            if not taken.samples:
                break
            await self._train(taken)
            if self._progress.steps_in_window == self._config.steps_per_version:
                await self._publish()
        await self._booked()
        if not self._progress.steps:
            reason = await self._queue.last_failure.remote() or "the environment has no prompt"
            raise EnvironmentFailedError(f"there was nothing to train on: {reason}")
        return schema.COMPLETED

    async def stop(self) -> None:
        """Finish what runs, a step or a weight sync, then return from `run`."""
        self._stop.set()

    async def end(self, status: str) -> TrainerReport:
        """End the run's telemetry, the unfinished window with it, and say what was done."""
        progress = self._progress
        now_ns = self._clock.now_ns()
        window = self._states.close_window(now_ns)
        self._states.enter("stopped", now_ns)
        stats = await end_telemetry(
            self._telemetry,
            status=status,
            param_version=max(progress.version, 0),
            state_seconds=window.state_attributes() if progress.steps_in_window else {},
        )
        greedy = await self._in_learner_thread(self._evaluate) if status == schema.COMPLETED else None
        return TrainerReport(
            versions_published=max(progress.version, 0),
            train_steps=progress.steps,
            first=progress.first,
            last=progress.last,
            staleness=progress.staleness,
            update_lag=progress.update_lag,
            responses_spanning_versions=progress.responses_spanning_versions,
            exact_match_greedy=greedy,
            times=progress.times,
            active_intervals=self._states.active_intervals(),
            device=self._device,
            telemetry=stats,
        )

    async def status(self) -> TrainerStatus:
        return TrainerStatus(
            state=self._states.state,
            param_version=self._progress.version,
            steps=self._progress.steps,
            telemetry=self._telemetry.stats(),
        )

    async def versions_after(self, version: int) -> list[VersionReport]:
        """The newest versions above `version`, oldest first, as soon as there is one; none when training has ended."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._ended or self._progress.version > version)
        return [report for report in self._progress.recent if report.version > version]

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _build(self) -> None:
        # Here: torch takes seconds to import, the actor answers meanwhile, and the driver never needs it.
        from runtime.device import actor_device
        from runtime.learner import Learner
        from runtime.model import build_model, warm_start

        config, device = self._config, actor_device()
        self._device = str(device)
        self._model, self._tokenizer = build_model(config.model, seed=config.seed, device=device)
        if not config.model.path:
            environment = load_environment(config.environment, seed=config.seed + WARM_START_SEED_OFFSET)
            warm_start(self._model, self._tokenizer, environment)
        self._learner = Learner(self._model, self._tokenizer, config.grpo, config.optimizer, device)

    def _export(self) -> Arrays:
        from runtime.model import export_arrays

        return export_arrays(self._model)

    def _evaluate(self) -> float | None:
        from runtime.evaluation import HELD_OUT_SEED, exact_match_greedy

        environment = load_environment(self._config.environment, seed=HELD_OUT_SEED)
        max_new_tokens = self._config.engine.max_new_tokens
        try:
            ratio = exact_match_greedy(
                self._model, self._tokenizer, environment, max_new_tokens=max_new_tokens
            )
        # The user's scorer may raise anything; the run is complete without this number.
        except Exception:
            logger.exception("the final weights could not be evaluated")
            return None
        return ratio if math.isfinite(ratio) else None

    async def _next_batch(self) -> TakenBatch | None:
        """The samples of the next step, none at the end of the data; None if the run is told to stop."""
        taken: list[TakenBatch] = []

        async def receive(batch: Awaitable[TakenBatch]) -> None:
            taken.append(await batch)

        with self._state("waiting_samples"):
            # Asked for before the first wait, in which the last step's telemetry has its turn.
            await race(self._stop.wait(), receive(self._queue.take.remote(self._config.required_samples)))
            await self._booked()
        return None if self._stop.is_set() else taken[0]

    async def _train(self, taken: TakenBatch) -> None:
        samples, progress = taken.samples, self._progress
        start_ns = self._clock.now_ns()
        with self._state("assembling"):
            lags = progress.begin_step(samples)
            batch = await self._in_learner_thread(lambda: self._learner.assemble(samples))
        with self._state("training"):
            result = await self._in_learner_thread(lambda: self._learner.step(batch))
        end_ns = self._clock.now_ns()
        ticket_ids = [sample.ticket.ticket_id for sample in samples]
        dropped = [not kept for kept in batch.kept]
        progress.end_step(samples, updated=result.updated)
        self._tell(
            self._queue.settle.remote(
                list(compress(ticket_ids, batch.kept)), list(compress(ticket_ids, dropped))
            ),
            self._emit_step(taken, result, lags, start_ns, end_ns),
        )

    async def _publish(self) -> None:
        """Give the weights to every rollouter as the next version; the first time, as version 0."""
        progress = self._progress
        version, steps = progress.version + 1, progress.steps_in_window
        start_ns = self._clock.now_ns()
        with self._state("weight_sync"):
            arrays = await self._in_learner_thread(self._export)
            report = await sync_weights(arrays, version, self._rollouters)
        end_ns = self._clock.now_ns()
        window = self._states.close_window(end_ns)
        self._emit_sync(version, steps, report, window, start_ns)
        if version == 0:
            self._states.leave("starting", end_ns)
        progress.publish(window if version else None, rollouter_idle_ratio=report.idle_ratio)
        await self._notify()
        await self._booked()
        self._tell(self._queue.on_sync.remote(version))

    def _tell(self, *answers: Awaitable[None]) -> None:
        self._told = asyncio.gather(*answers)

    async def _booked(self) -> None:
        """Returns when what was told last has been answered."""
        if self._told is not None:
            await self._told

    async def _emit_step(
        self, taken: TakenBatch, result: "StepResult", lags: Lags, start_ns: int, end_ns: int
    ) -> None:
        seconds = (end_ns - start_ns) / 1e9
        values = {
            **result.values,
            **lags._asdict(),
            "queue_wait": taken.queue_wait_seconds,
            "step": [seconds],
            "tokens_per_second": result.token_count / seconds,
        }
        self._telemetry.control(
            schema.TRAIN_STEP,
            param_version=self._progress.version + 1,
            start_ns=start_ns,
            end_ns=end_ns,
            attributes={
                schema.STEP: self._progress.steps,
                schema.STEP_IN_WINDOW: self._progress.steps_in_window,
                schema.SAMPLE_COUNT: len(taken.samples),
                schema.TRAINED_SAMPLE_COUNT: result.trained_sample_count,
                schema.TOKEN_COUNT: result.token_count,
            },
            values={
                name: Partial.of(name, value) if isinstance(value, list) else value
                for name, value in values.items()
            },
            links=[response.traceparent for sample in taken.samples for response in sample.responses],
        )

    def _emit_sync(self, version: int, steps: int, report: SyncReport, window: Window, start_ns: int) -> None:
        seconds = (window.end_ns - start_ns) / 1e9
        phases = {
            "wait": report.wait_seconds,
            "load": report.load_seconds,
            "transfer": seconds - report.wait_seconds - report.load_seconds,
        }
        self._telemetry.control(
            schema.WEIGHT_SYNC,
            param_version=version,
            start_ns=start_ns,
            end_ns=window.end_ns,
            attributes={
                schema.STEPS_IN_WINDOW: steps,
                schema.ROLLOUTERS: report.owing,
                schema.SYNC_BYTES: report.bytes,
                **{schema.PHASE_SECONDS_PREFIX + phase: value for phase, value in phases.items()},
                # Start-up belongs to no window.
                **(window.state_attributes() if version else {}),
            },
            values={"weight_sync": Partial.of("weight_sync", [seconds])},
        )

    @contextmanager
    def _state(self, condition: str) -> Iterator[None]:
        self._states.enter(condition, self._clock.now_ns())
        try:
            yield
        finally:
            self._states.leave(condition, self._clock.now_ns())

    async def _in_learner_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._learner_thread, work)
