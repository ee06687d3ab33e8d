"""How a run ends: by itself, by the end of its data, by a failure anywhere. On Ray, with real processes killed."""

import asyncio
import os
import signal
import time

import pytest

from runtime.telemetry import schema
from tests.integration.crew_run import carry_out, configure
from tests.otlp_sink import OtlpSink
from tests.processes import find

LONGEST_END_SECONDS = 30.0
"""A promise to the user: a failed run is over within this time."""

pytestmark = pytest.mark.usefixtures("ray_session")


def ends(sink: OtlpSink) -> dict[str, str]:
    """Who said how the run ended."""
    spans = sink.named(schema.RUN_END)
    return {str(span.resource[schema.ROLE]): str(span.attributes[schema.STATUS]) for span in spans}


@pytest.mark.parametrize(
    ("actor", "cause", "ended_by"),
    [
        ("ray::Trainer", "trainer died", schema.CONTROLLER),
        ("ray::Rollouter", "rollouter 0 died", schema.TRAINER),
    ],
)
def test_c81_killed_actor_ends_the_run_soon_with_the_cause(actor: str, cause: str, ended_by: str) -> None:
    killed: list[float] = []

    with OtlpSink() as sink:

        async def kill() -> None:
            await asyncio.to_thread(sink.wait_for, lambda: len(sink.named(schema.WEIGHT_SYNC)) > 2)
            os.kill(find(os.getpid(), actor), signal.SIGKILL)
            killed.append(time.monotonic())

        status, message, reports = carry_out(configure(sink, "versions=1000000"), kill)
        seconds = time.monotonic() - killed[0]
    assert status == schema.FAILED
    assert cause in message
    assert seconds < LONGEST_END_SECONDS
    assert ends(sink)[ended_by] == schema.FAILED
    assert schema.COMPLETED not in ends(sink).values()
    assert reports.last_seen is not None
    assert reports.last_seen.param_version >= 1, "what is left of a trainer that died"
    assert reports.queue is not None
    account = reports.queue.account
    assert account.fed == account.trained + account.filtered_zero_variance + account.unused_at_end


def test_c81_run_whose_samples_all_fail_ends_with_the_original_error() -> None:
    with OtlpSink() as sink:
        status, message, reports = carry_out(configure(sink, "environment=tests.environments:AllBad"))
    assert status == schema.FAILED
    assert "ValueError: no verifier installed" in message
    assert ends(sink)[schema.TRAINER] == schema.FAILED
    assert reports.trainer is not None
    assert reports.trainer.train_steps == 0


def test_an_actor_that_finds_no_node_of_its_kind_ends_the_start() -> None:
    """Trainer and queue are where they may be: `node:__internal_head__` is a resource of every Ray's first node."""
    placement = ("resources.trainer_node=node:__internal_head__", "resources.rollouter_node=nowhere")
    with OtlpSink() as sink:
        status, message, reports = carry_out(configure(sink, "start_timeout_seconds=6", *placement))
    assert status == schema.FAILED
    assert message == "rollouter 0 has not answered for 6 s"
    assert reports.trainer is not None
    assert reports.queue is not None
    assert reports.rollouters == []


def test_c88_data_that_ends_is_trained_to_the_last_prompt_and_one_bad_sample_is_counted() -> None:
    with OtlpSink() as sink:
        config = configure(
            sink, "environment=tests.environments:OneBadSample", "required_samples=64", "steps_per_version=4"
        )
        status, _, reports = carry_out(config)
    assert status == schema.COMPLETED
    assert reports.queue is not None
    account = reports.queue.account
    assert (account.fed, account.failed, account.unused_at_end) == (129, 1, 0)
    assert account.trained + account.filtered_zero_variance == 128
    steps = sink.named(schema.TRAIN_STEP)
    assert [span.attributes[schema.SAMPLE_COUNT] for span in steps] == [64, 64]
    assert [span.attributes[schema.PARAM_VERSION] for span in steps] == [1, 1]
    (end,) = [span for span in sink.named(schema.RUN_END) if span.resource[schema.ROLE] == schema.TRAINER]
    assert end.attributes[schema.PARAM_VERSION] == 0
    assert any(key.startswith(schema.STATE_SECONDS_PREFIX) for key in end.attributes), (
        "the partial window's states"
    )


def test_environment_without_a_prompt_is_a_failure_not_a_success() -> None:
    with OtlpSink() as sink:
        status, message, _ = carry_out(configure(sink, "environment=tests.environments:Empty"))
    assert status == schema.FAILED
    assert "the environment has no prompt" in message
