"""The trainer's side of the queue: what it says, when, and in which state it is meanwhile. In this process."""

import asyncio
from typing import Any

import pytest

from runtime.config_sources import load_config
from runtime.sample_queue import TakenBatch
from runtime.trainer import Trainer
from runtime.types import Prompt, Response, Sample, Ticket
from runtime.weight_sync import Arrays, SyncReport
from tests.runtime.local_actor import LocalActor

WATCHDOG_SECONDS = 120.0


class SlowQueue:
    """Has samples at once, but answers what it is told only when the test lets it."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.answering = asyncio.Event()
        self.changed = asyncio.Event()

    async def take(self, count: int) -> TakenBatch:
        self._note("take")
        return TakenBatch([sample(number) for number in range(count)], [0.0] * count)

    async def settle(self, trained: list[int], filtered: list[int]) -> None:
        self._note(f"settle {trained} {filtered}")
        await self.answering.wait()
        self._note("settled")

    async def on_sync(self, version: int) -> None:
        self._note(f"on_sync {version}")

    def _note(self, what: str) -> None:
        self.said.append(what)
        self.changed.set()

    async def until_said(self, what: str, times: int) -> None:
        while self.said.count(what) < times:
            self.changed.clear()
            await self.changed.wait()


def sample(number: int) -> Sample:
    """Ticket 0 has a reward that varies over the group, the others have none."""
    responses = [
        Response(
            index=index,
            token_ids=[5, 2],
            log_probs=[-3.0] * 2,
            versions=[0, 0],
            reward=float(index and not number),
        )
        for index in range(2)
    ]
    ticket = Ticket(ticket_id=number, prompt=Prompt(prompt_id="", text="s10=", answer="01"))
    return Sample(ticket=ticket, prompt_token_ids=[1, 4, 5], responses=responses, rollouter="0")


async def synced_at_once(arrays: Arrays, version: int, rollouters: Any) -> SyncReport:
    return SyncReport(owing=[], idle_ratio=None, bytes=0, wait_seconds=0.0, load_seconds=0.0)


def test_next_samples_are_asked_for_while_the_queue_books_the_step_and_a_sync_is_told_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("runtime.trainer.sync_weights", synced_at_once)

    async def scenario() -> None:
        queue = SlowQueue()
        config = load_config(
            assignments=["environment=tests.environments:Empty", "required_samples=2", "group_size=2"],
            flags={"versions": "1"},
        )
        trainer = Trainer(config, LocalActor(queue), {})
        training = asyncio.create_task(trainer.run())
        await queue.until_said("take", 2)
        assert queue.said == ["on_sync 0", "take", "settle [0] [1]", "take"]
        assert (await trainer.status()).state == "waiting_samples"
        queue.answering.set()
        assert await training == "completed"
        assert queue.said.count("settle [0] [1]") == 4
        assert queue.said[-2:] == ["settled", "on_sync 1"]
        await trainer.end("stopped")

    asyncio.run(asyncio.wait_for(scenario(), WATCHDOG_SECONDS))
