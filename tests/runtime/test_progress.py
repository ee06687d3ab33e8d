"""Staleness, update lag and the reports of a version, by the worked values."""

import pytest

from runtime.progress import Progress
from runtime.telemetry.partial import Partial
from runtime.telemetry.state_clock import Window
from runtime.types import Prompt, Response, Sample, Ticket


def sample(versions: list[int], reward: float = 1.0) -> Sample:
    response = Response(
        index=0, token_ids=[1] * len(versions), versions=versions, reward=reward, exact_match=reward
    )
    ticket = Ticket(ticket_id=0, prompt=Prompt(prompt_id="p", text="", answer=""))
    return Sample(ticket=ticket, prompt_token_ids=[1], responses=[response], rollouter="0")


def window(active_ns: int, idle_ns: int) -> Window:
    return Window(
        start_ns=0,
        end_ns=active_ns + idle_ns,
        state_ns={"training": active_ns, "waiting_samples": idle_ns},
        capacity_ns=0,
        busy_capacity_ns=0,
    )


def train(progress: Progress, samples: list[Sample], *, updated: bool = True) -> tuple[Partial, Partial]:
    lags = progress.begin_step(samples)
    progress.end_step(samples, updated=updated)
    return lags.staleness, lags.update_lag


def of(staleness: list[float], update_lag: list[float]) -> tuple[Partial, Partial]:
    return Partial.of("staleness", staleness), Partial.of("update_lag", update_lag)


def test_staleness_counts_versions_and_update_lag_counts_updates() -> None:
    progress = Progress()
    progress.publish(None)
    for step in range(4):
        assert train(progress, [sample([0])]) == of([0.0], [float(step)])
    progress.publish(window(1, 0))
    lags = [train(progress, [sample([0]), sample([0, 1]), sample([1])]) for _ in range(4)]
    assert lags[0] == of([1.0, 1.0, 0.0], [4.0, 4.0, 0.0])
    assert lags[3] == of([1.0, 1.0, 0.0], [7.0, 7.0, 3.0])
    assert progress.responses_spanning_versions == 4


def test_step_without_an_update_adds_no_lag() -> None:
    progress = Progress()
    progress.publish(None)
    train(progress, [sample([0])], updated=False)
    assert train(progress, [sample([0])]) == of([0.0], [0.0])


def test_report_of_a_version_is_over_all_consumed_samples() -> None:
    progress = Progress()
    progress.publish(None)
    train(progress, [sample([0], reward=1.0), sample([0], reward=1.0), sample([0], reward=1.0)])
    train(progress, [sample([0], reward=0.0)])
    progress.publish(window(3_000_000_000, 1_000_000_000), rollouter_idle_ratio=0.5)
    report = progress.last
    assert report is not None
    assert report is progress.first
    assert (report.version, report.train_steps, report.samples) == (1, 2, 4)
    assert report.reward_mean == 0.75, "not the mean of the steps' means, 0.5"
    assert (report.trainer_idle_ratio, report.rollouter_idle_ratio) == (0.25, 0.5)
    assert report.seconds == pytest.approx(4.0)
