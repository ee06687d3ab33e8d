"""The actors of one run: started together, watched together, ended in an order that loses nothing.

The end: rollouters stop (their last records are sent) -> the queue closes the account -> the trainer ends the run.
An actor that is dead or does not answer is not waited for; in the end all of them are killed.
"""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from textwrap import shorten
from typing import Any, NoReturn, TypeVar

import ray
from ray.exceptions import RayActorError, RayError, RayTaskError

from runtime.config import RunConfig
from runtime.delivery_notice import DeliveryNotice
from runtime.errors import ActorFailedError, RunFailedError
from runtime.live_view import LiveView, Statuses
from runtime.reports import QueueReport, RollouterReport, TrainerReport, TrainerStatus
from runtime.rollouter import Rollouter
from runtime.run_end import end_telemetry
from runtime.sample_queue import SampleQueue
from runtime.summary import Reports
from runtime.telemetry import schema
from runtime.telemetry.emitter import Telemetry
from runtime.trainer import Trainer

T = TypeVar("T")

_HEARTBEAT_SECONDS = 1.0
_PLACE = 0.001
"""That trainer and queue each take of `resources.trainer_node`: it says where they live, and is not to be used up."""
_SILENCE_SECONDS = 25.0
"""Once version 0 is out, an actor whose loop does not answer for so long counts as failed."""
_STOP_SECONDS = 8.0
"""Patience with each of the three steps of the end, so that a failed run is over within 30 s."""
_EVALUATION_SECONDS = 600.0
_AFTERMATH_SECONDS = 1.5
_LONGEST_MESSAGE = 400
"""Characters of an actor's error on one line; `failure.log` has all of it."""


class Crew:
    """Needs a running event loop and a Ray to live on."""

    def __init__(self, config: RunConfig) -> None:
        resources = config.resources
        self._config = config
        self._queue: Any = _actor(SampleQueue, 0.0, {resources.trainer_node: _PLACE}).remote(config)
        self._rollouters: dict[str, Any] = {
            str(slot): _actor(Rollouter, resources.rollouter_gpus, {resources.rollouter_node: 1}).remote(
                config, str(slot), self._queue
            )
            for slot in range(config.rollouters)
        }
        self._trainer: Any = _actor(Trainer, resources.trainer_gpus, {resources.trainer_node: _PLACE}).remote(
            config, self._queue, self._rollouters
        )
        self._version = 0
        self._last_seen: TrainerStatus | None = None
        self._delivery = DeliveryNotice()
        self._rollouts = {
            slot: asyncio.create_task(_answer(f"rollouter {slot}", rollouter.run.remote()))
            for slot, rollouter in self._rollouters.items()
        }
        self._training: asyncio.Task[str] = asyncio.create_task(
            _answer("trainer", self._trainer.run.remote())
        )

    async def work(self, view: LiveView) -> str:
        """The status in which training ends by itself. Raises RunFailedError if an actor fails or falls silent."""
        showing = asyncio.create_task(self._show_versions(view))
        heart = asyncio.create_task(self._watch_heartbeats(view))
        watched = [self._training, *self._rollouts.values(), heart]
        try:
            await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            if self._training.done() and not self._training.exception():
                await asyncio.wait([showing], timeout=_STOP_SECONDS)
                return self._training.result()
            # One death makes others fail: give the one that it began with the time to be noticed.
            await asyncio.wait(watched, timeout=_AFTERMATH_SECONDS)
            raise _first_cause([task for task in watched if task.done()])
        finally:
            for task in (showing, heart):
                task.cancel()
            await asyncio.gather(showing, heart, return_exceptions=True)

    async def end(self, status: str) -> Reports:
        """End the run as `status`. What an actor does not answer in time is missing from the reports."""
        stops = [self._trainer.stop.remote(), *(r.stop.remote(status) for r in self._rollouters.values())]
        stopping = [asyncio.create_task(_or_none(stop, _STOP_SECONDS)) for stop in stops]
        everybody = [*self._rollouts.values(), self._training]
        await asyncio.wait([*everybody, *stopping], timeout=_STOP_SECONDS)
        rollouters: list[RollouterReport] = [
            task.result() for task in self._rollouts.values() if task.done() and not task.exception()
        ]
        queue: QueueReport | None = await _or_none(self._queue.close.remote(status), _STOP_SECONDS)
        patience = _EVALUATION_SECONDS if status == schema.COMPLETED else _STOP_SECONDS
        trainer: TrainerReport | None = await _or_none(self._trainer.end.remote(status), patience)
        if trainer is None:
            await self._end_for_the_trainer(status)
        for task in everybody:
            task.cancel()
        await asyncio.gather(*everybody, return_exceptions=True)
        for actor in (*self._rollouters.values(), self._queue, self._trainer):
            ray.kill(actor)
        return Reports(trainer=trainer, rollouters=rollouters, queue=queue, last_seen=self._last_seen)

    async def _end_for_the_trainer(self, status: str) -> None:
        telemetry = Telemetry(self._config.telemetry, self._config.identity(schema.CONTROLLER))
        await end_telemetry(telemetry, status=status, param_version=self._version)

    async def _show_versions(self, view: LiveView) -> None:
        # A trainer that cannot answer is the business of those who watch it.
        with suppress(RayError, RunFailedError):
            while reports := await self._trainer.versions_after.remote(self._version):
                view.refresh(await self._statuses(_SILENCE_SECONDS))
                for report in reports:
                    self._version = report.version
                    view.version(report)

    async def _watch_heartbeats(self, view: LiveView) -> NoReturn:
        start_seconds = self._config.start_timeout_seconds
        patience = start_seconds
        while True:
            statuses = await self._statuses(patience)
            view.refresh(statuses)
            patience = start_seconds if statuses.trainer.param_version < 0 else _SILENCE_SECONDS
            await asyncio.sleep(_HEARTBEAT_SECONDS)

    async def _statuses(self, patience_seconds: float) -> Statuses:
        trainer, queue, *rollouters = await asyncio.gather(
            _answer("trainer", self._trainer.status.remote(), patience_seconds),
            _answer("queue", self._queue.status.remote(), patience_seconds),
            *(
                _answer(f"rollouter {slot}", rollouter.status.remote(), patience_seconds)
                for slot, rollouter in self._rollouters.items()
            ),
        )
        self._last_seen = trainer
        names = {f"rollouter {status.slot}": status.telemetry for status in rollouters}
        self._delivery.observe({"the trainer": trainer.telemetry, **names})
        return Statuses(trainer, queue, rollouters)


def _actor(role: type, gpus: float, takes: Mapping[str, float]) -> Any:
    place = {name: amount for name, amount in takes.items() if name}
    # An actor that died has lost its state: a restarted one would only hide that.
    return ray.remote(role).options(num_cpus=0, num_gpus=gpus, resources=place, max_restarts=0)


async def _answer(name: str, answer: Awaitable[T], patience_seconds: float | None = None) -> T:
    """The answer of an actor; its failure, death or silence as a RunFailedError that names it."""
    try:
        return await asyncio.wait_for(answer, patience_seconds)
    except RayTaskError as error:
        cause = error.cause
        raise RunFailedError(f"{name}: {type(cause).__name__}: {_one_line(cause)}") from error
    except RayActorError as error:
        raise ActorFailedError(f"{name} died: {_first_line(error)}") from error
    except TimeoutError as error:
        raise ActorFailedError(f"{name} has not answered for {patience_seconds:.0f} s") from error


async def _or_none(answer: Awaitable[T], patience_seconds: float) -> T | None:
    try:
        return await asyncio.wait_for(answer, patience_seconds)
    except (RayError, TimeoutError):
        return None


def _first_cause(tasks: Sequence[asyncio.Task[Any]]) -> BaseException:
    """The death of an actor rather than what it did to those who waited for it."""
    errors = [error for task in tasks if (error := task.exception())]
    return next((error for error in errors if isinstance(error, ActorFailedError)), errors[0])


def _one_line(error: BaseException) -> str:
    """All that it says, unless that is a lot: a message that begins with a list has its point further down."""
    return shorten(str(error), _LONGEST_MESSAGE, placeholder=" ...")


def _first_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    # Ray prints a traceback when a constructor failed; the error is its last line.
    return lines[-1 if "creation task" in lines[0] else 0] if lines else ""
