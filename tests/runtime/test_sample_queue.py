"""The queue actor, without Ray: who waits, why, and what wakes them."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from runtime.config_sources import load_config
from runtime.sample_queue import CLOSED, Grant, SampleQueue
from runtime.telemetry import schema
from runtime.types import Response, Sample, Ticket
from tests.otlp_sink import OtlpSink

WATCHDOG_SECONDS = 30.0


def run(scenario: Coroutine[Any, Any, None]) -> None:
    async def watched() -> None:
        await asyncio.wait_for(scenario, WATCHDOG_SECONDS)

    asyncio.run(watched())


def make_queue(*assignments: str, environment: str = "SortEnvironment") -> SampleQueue:
    settings = ["required_samples=4", "steps_per_version=1", "staleness_threshold=0", *assignments]
    return SampleQueue(load_config(assignments=[f"environment=tests.environments:{environment}", *settings]))


def finished(ticket: Ticket, version: int = 0, reward: float = 1.0) -> Sample:
    responses = [
        Response(
            index=i, token_ids=[5, 2], log_probs=[-0.1, -0.1], versions=[version, version], reward=reward
        )
        for i in range(2)
    ]
    return Sample(ticket=ticket, prompt_token_ids=[1], responses=responses, rollouter="0")


async def settled(task: "asyncio.Task[Any]") -> bool:
    """Whether the task is done once everything that can run has run."""
    for _ in range(20):
        await asyncio.sleep(0)
    return task.done()


def test_pause_is_told_once_and_ends_with_the_sync() -> None:
    async def scenario() -> None:
        queue = make_queue()
        grant = await queue.acquire(10, "")
        assert [ticket.ticket_id for ticket in grant.tickets] == [0, 1, 2, 3]
        assert await queue.acquire(10, "") == Grant([], "paused_staleness")
        waiting = asyncio.create_task(queue.acquire(10, "paused_staleness"))
        await queue.put([finished(ticket) for ticket in grant.tickets], [])
        taken = await queue.take(4)
        await queue.settle([sample.ticket.ticket_id for sample in taken.samples], [])
        assert not await settled(waiting), "room in the queue is no new budget"
        await queue.on_sync(1)
        assert len((await waiting).tickets) == 4
        await queue.close(schema.STOPPED)

    run(scenario())


def test_failed_sample_is_replaced_at_threshold_zero() -> None:
    async def scenario() -> None:
        queue = make_queue()
        tickets = (await queue.acquire(4, "")).tickets
        batch = asyncio.create_task(queue.take(4))
        await queue.put(
            [finished(ticket) for ticket in tickets[:3]], [(tickets[3].ticket_id, "ValueError: x")]
        )
        assert not await settled(batch)
        (replacement,) = (await queue.acquire(4, "paused_staleness")).tickets
        await queue.put([finished(replacement)], [])
        assert [sample.ticket.ticket_id for sample in (await batch).samples] == [0, 1, 2, 4]
        assert await queue.last_failure() == "ValueError: x"
        await queue.close(schema.STOPPED)

    run(scenario())


def test_many_waiters_share_what_one_sync_frees_and_none_sleeps_on() -> None:
    async def scenario() -> None:
        queue = make_queue("required_samples=16")
        first = (await queue.acquire(16, "")).tickets
        waiters = [asyncio.create_task(queue.acquire(2, "paused_staleness")) for _ in range(8)]
        await queue.put([finished(ticket) for ticket in first], [])
        await queue.take(16)
        await queue.settle([ticket.ticket_id for ticket in first], [])
        await queue.on_sync(1)
        grants = await asyncio.gather(*waiters)
        tickets = [ticket.ticket_id for grant in grants for ticket in grant.tickets]
        assert sorted(tickets) == list(range(16, 32))
        await queue.close(schema.STOPPED)

    run(scenario())


def test_c88_tail_of_the_data_is_a_short_batch_and_every_prompt_is_drawn_once() -> None:
    async def scenario() -> None:
        queue = make_queue("required_samples=64", "steps_per_version=4", environment="Finite")
        prompts: list[str] = []
        sizes: list[int] = []
        tickets = (await queue.acquire(1000, "")).tickets
        assert len(tickets) == 129
        assert await queue.acquire(1000, "") == Grant([], "waiting_prompts")
        for ticket in tickets:
            await queue.put([finished(ticket)], [])
        while samples := (await queue.take(64)).samples:
            sizes.append(len(samples))
            prompts += [sample.ticket.prompt.prompt_id for sample in samples]
            await queue.settle([sample.ticket.ticket_id for sample in samples], [])
        assert sizes == [64, 64, 1]
        assert len(set(prompts)) == 129
        await queue.close(schema.COMPLETED)

    run(scenario())


def test_end_of_the_run_wakes_everybody_and_accounts_for_the_rest() -> None:
    async def scenario() -> None:
        queue = make_queue()
        tickets = (await queue.acquire(4, "")).tickets
        await queue.put([finished(tickets[0])], [])
        acquiring = asyncio.create_task(queue.acquire(1, "paused_staleness"))
        taking = asyncio.create_task(queue.take(4))
        report = await queue.close(schema.STOPPED)
        assert await acquiring == Grant([], CLOSED)
        assert (await taking).samples == []
        assert report.account.unused_at_end == report.account.fed == 4
        await queue.put([finished(tickets[1])], [])
        assert (await queue.status()).unused_at_end == 4, "a result after the end changes nothing"

    run(scenario())


def test_cohort_of_a_version_is_sent_when_no_ticket_can_add_to_it() -> None:
    async def scenario(sink: OtlpSink) -> None:
        queue = make_queue("staleness_threshold=1", f"telemetry.endpoints=[{sink.url}]")
        first = (await queue.acquire(4, "")).tickets
        await queue.put([finished(ticket, version=0, reward=0.5) for ticket in first[:3]], [])
        await queue.on_sync(1)
        (late,) = (await queue.acquire(1, "")).tickets
        await queue.put([finished(late, version=1)], [])
        await queue.put([finished(first[3], version=0, reward=1.5)], [])
        await queue.on_sync(2)
        await queue.close(schema.COMPLETED)

    with OtlpSink() as sink:
        run(scenario(sink))
        cohorts = sink.named(schema.GENERATED_COHORT)
    assert [span.attributes[schema.PARAM_VERSION] for span in cohorts] == [0, 1]
    assert [span.attributes[schema.SAMPLE_COUNT] for span in cohorts] == [4, 1]
    assert cohorts[0].attributes[schema.METRIC_PREFIX + "reward"] == [8.0, 6.0, 0.5, 1.5, pytest.approx(1.5)]


def test_account_balances_in_every_request() -> None:
    async def scenario(sink: OtlpSink) -> None:
        queue = make_queue(f"telemetry.endpoints=[{sink.url}]", "telemetry.metrics_interval_seconds=0.01")
        for version in range(1, 20):
            tickets = (await queue.acquire(4, "")).tickets
            await queue.put([finished(ticket) for ticket in tickets], [])
            await queue.take(4)
            await queue.settle([t.ticket_id for t in tickets[:3]], [t.ticket_id for t in tickets[3:]])
            await queue.on_sync(version)
        await queue.close(schema.COMPLETED)

    with OtlpSink() as sink:
        run(scenario(sink))
    requests = {point.request for point in sink.points if point.name == schema.SUM_FED}
    assert len(requests) >= 2
    for request in requests:
        values = {
            p.name: p.value for p in sink.points if p.request == request and p.name != schema.SUM_SAMPLES
        }
        ended = sum(p.value for p in sink.points if p.request == request and p.name == schema.SUM_SAMPLES)
        assert values[schema.SUM_FED] == ended + values[schema.GAUGE_IN_FLIGHT] + values[schema.GAUGE_QUEUED]
    assert values[schema.SUM_FED] == 76
