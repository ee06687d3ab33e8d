"""The rollouter actor, without Ray: weights between two tokens, states, and no wait that nobody ends."""

import asyncio
import math
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest
import torch

from runtime.config import RunConfig
from runtime.config_sources import load_config
from runtime.errors import EnvironmentFailedError
from runtime.model import build_model, export_arrays
from runtime.reports import RollouterReport, RollouterStatus
from runtime.rollouter import Rollouter
from runtime.sample_queue import SampleQueue
from runtime.telemetry import schema
from runtime.types import Sample
from runtime.weight_sync import Arrays, LoadReport
from tests.environments import StuckScore
from tests.otlp_sink import OtlpSink, SpanSeen
from tests.runtime.local_actor import LocalActor, stored

WATCHDOG_SECONDS = 120.0


class Scene(NamedTuple):
    config: RunConfig
    queue: SampleQueue
    rollouter: Rollouter
    arrays: Arrays

    async def load(self, version: int) -> LoadReport:
        report = await self.rollouter.load_weights(version, [stored(self.arrays)])
        await self.queue.on_sync(version)
        return report

    async def consume(self) -> list[Sample]:
        samples = (await self.queue.take(self.config.required_samples)).samples
        await self.queue.settle([sample.ticket.ticket_id for sample in samples], [])
        return samples


@asynccontextmanager
async def scene(*assignments: str) -> AsyncIterator[tuple[Scene, "asyncio.Task[RollouterReport]"]]:
    settings = ["required_samples=4", "group_size=2", "steps_per_version=1", "engine.capacity_responses=8"]
    config = load_config(assignments=[*settings, *assignments])
    queue = SampleQueue(config)
    rollouter = Rollouter(config, "0", LocalActor(queue))
    model, _ = build_model(config.model, seed=1, device=torch.device("cpu"))
    running = asyncio.create_task(rollouter.run())
    try:
        yield Scene(config, queue, rollouter, export_arrays(model)), running
    finally:
        await rollouter.stop(schema.STOPPED)
        await asyncio.wait([running])
        await queue.close(schema.STOPPED)


def run(scenario: Coroutine[Any, Any, None]) -> None:
    async def watched() -> None:
        await asyncio.wait_for(scenario, WATCHDOG_SECONDS)

    asyncio.run(watched())


async def until(rollouter: Rollouter, condition: Callable[[RollouterStatus], object]) -> None:
    status = await rollouter.status()
    while not condition(status):
        await asyncio.sleep(0.001)
        status = await rollouter.status()


def test_c82_hundred_loads_in_mid_flight_lose_no_sample_and_append_to_every_response() -> None:
    async def scenario() -> None:
        rng = random.Random(0)
        samples: list[Sample] = []
        async with scene("staleness_threshold=3", "engine.max_new_tokens=40") as (s, running):
            await s.load(0)
            for version in range(1, 101):
                if rng.random() < 0.5:
                    await until(s.rollouter, lambda status: status.decoding)
                await s.load(version)
                view = await s.queue.status()
                assert view.fed == view.trained + view.in_flight + view.queued
                if view.queued >= 4:
                    samples += await s.consume()
            assert not running.done()
        responses = [response for sample in samples for response in sample.responses]
        assert len(responses) >= 8
        for response in responses:
            assert len(response.token_ids) == len(response.log_probs) == len(response.versions)
            assert response.versions == sorted(response.versions)
        assert any(response.newest_version > response.oldest_version for response in responses)

    run(scenario())


def test_c83_loads_and_heartbeats_go_on_while_the_scorer_is_stuck() -> None:
    async def scenario() -> None:
        StuckScore.released.clear()
        try:
            async with scene("environment=tests.environments:StuckScore", "staleness_threshold=3") as (s, _):
                await s.load(0)
                await until(s.rollouter, lambda status: status.state == "paused_staleness")
                for version in range(1, 11):
                    await s.load(version)
                view = await s.queue.status()
                assert (view.generated, view.in_flight) == (0, 16)
                StuckScore.released.set()
                assert len(await s.consume()) == 4
        finally:
            StuckScore.released.set()

    run(scenario())


def test_without_partial_rollout_no_response_spans_two_versions() -> None:
    async def scenario() -> None:
        async with scene("partial_rollout=false", "staleness_threshold=3", "engine.max_new_tokens=20") as (
            s,
            _,
        ):
            await s.load(0)
            for version in range(1, 9):
                await until(s.rollouter, lambda status: status.decoding)
                report = await s.load(version)
                assert report.served_before
                for sample in await s.consume():
                    for response in sample.responses:
                        assert response.oldest_version == response.newest_version

    run(scenario())


def idle_ratio(span: SpanSeen) -> float:
    names = [schema.STATE_SECONDS_PREFIX + state for state in schema.ROLLOUTER_ACTIVE_STATES]
    active_seconds = sum(float(str(span.attributes.get(name, 0.0))) for name in names)
    return 1 - active_seconds / float(str(span.attributes[schema.VERSION_TIME_SECONDS]))


def windows(sink: OtlpSink) -> list[SpanSeen]:
    return sink.named(schema.ROLLOUTER_WINDOW)


def test_window_opens_with_the_first_weights_and_names_the_first_skipped_version() -> None:
    async def scenario(sink: OtlpSink) -> None:
        async with scene(f"telemetry.endpoints=[{sink.url}]") as (s, _):
            first = await s.load(2)
            assert (first.served_before, first.idle_ratio) == (False, None)
            second = await s.load(3)
            assert second.served_before
            told.append(second.idle_ratio)
            told.append((await s.load(6)).idle_ratio)

    told: list[float | None] = []

    with OtlpSink() as sink:
        run(scenario(sink))
        seen = windows(sink)
        ends = sink.named(schema.RUN_END)
    assert [span.attributes[schema.PARAM_VERSION] for span in seen] == [3, 6]
    assert schema.PARAM_VERSION_FROM not in seen[0].attributes
    assert seen[1].attributes[schema.PARAM_VERSION_FROM] == 4
    assert told == pytest.approx([idle_ratio(span) for span in seen]), (
        "told with the load that ends the window"
    )
    assert seen[0].message.end_time_unix_nano == seen[1].message.start_time_unix_nano
    for span in seen:
        states = [
            value for key, value in span.attributes.items() if key.startswith(schema.STATE_SECONDS_PREFIX)
        ]
        assert schema.STATE_SECONDS_PREFIX + "starting" not in span.attributes
        assert sum(float(str(value)) for value in states) == pytest.approx(
            span.attributes[schema.VERSION_TIME_SECONDS], abs=1e-9
        )
    assert {span.resource[schema.ROLE]: span.attributes[schema.PARAM_VERSION] for span in ends} == {
        schema.ROLLOUTER_ROLE: 6,
        schema.QUEUE: 6,
    }


def test_rollouter_without_budget_waits_in_that_state() -> None:
    async def scenario() -> None:
        async with scene("staleness_threshold=0") as (s, _):
            await s.load(0)
            await until(s.rollouter, lambda status: status.state == "paused_staleness")
            assert (await s.queue.status()).fed == 4
            await s.consume()
            await s.load(1)
            assert {
                response.oldest_version for sample in await s.consume() for response in sample.responses
            } == {1}

    run(scenario())


def test_c81_when_no_sample_can_be_scored_the_original_error_ends_the_rollouter() -> None:
    async def scenario() -> None:
        settings = ("environment=tests.environments:AllBad", "failed_samples_in_a_row=6")
        async with scene(*settings) as (s, running):
            await s.load(0)
            with pytest.raises(
                EnvironmentFailedError, match=r"6 samples in a row.*ValueError: no verifier installed"
            ):
                await running
            view = await s.queue.status()
            assert view.failed >= 6
            assert view.fed == view.failed + view.in_flight + view.queued

    run(scenario())


def test_reward_that_is_no_finite_number_fails_its_sample_alone() -> None:
    async def scenario() -> None:
        settings = (
            "environment=tests.environments:NotANumber",
            "required_samples=8",
            "staleness_threshold=1",
        )
        async with scene(*settings) as (s, running):
            await s.load(0)
            samples = await s.consume() + await s.consume()
            assert not running.done()
            rewards = [response.reward for sample in samples for response in sample.responses]
            assert all(math.isfinite(reward) for reward in rewards)
            assert {"sort-5", "sort-6"}.isdisjoint(sample.ticket.prompt.prompt_id for sample in samples)
            assert (await s.queue.status()).failed == 2
            assert "reward, got" in await s.queue.last_failure()

    run(scenario())
