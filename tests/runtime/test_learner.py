import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from runtime.config import EngineConfig, GrpoConfig, ModelConfig, OptimizerConfig
from runtime.engine import Engine
from runtime.errors import RuntimeConfigError
from runtime.learner import Batch, Learner
from runtime.model import build_model, export_arrays
from runtime.types import Prompt, Sample, Ticket

CPU = torch.device("cpu")
DEFAULTS = OptimizerConfig()
MODEL_METRICS = {"policy_loss", "entropy", "kl_behaviour", "clip_ratio", "grad_norm", "learning_rate"}
MODEL_METRICS |= {"effective_sample_size_ratio", "importance_ratio", "advantage"}
SAMPLE_METRICS = {"reward", "exact_match_ratio", "response_length"}


class Setup:
    """A learner, and samples that its own model has just generated, with chosen rewards."""

    def __init__(self, rewards: Sequence[Sequence[float]], optimizer: OptimizerConfig = DEFAULTS) -> None:
        self.model, tokenizer = build_model(ModelConfig(), seed=1, device=CPU)
        self.learner = Learner(self.model, tokenizer, GrpoConfig(), optimizer, CPU)
        engine = Engine(self.model, tokenizer, EngineConfig(), seed=1, device=CPU)
        for ticket_id, group in enumerate(rewards):
            prompt = Prompt(prompt_id=str(ticket_id), text="s3120="[: 2 + ticket_id % 4] + "=", answer="")
            engine.admit(Ticket(ticket_id=ticket_id, prompt=prompt), len(group))
        self.samples: list[Sample] = []
        while engine.decoding:
            self.samples += engine.step()
        self.samples.sort(key=lambda sample: sample.ticket.ticket_id)
        for sample, group in zip(self.samples, rewards, strict=True):
            for response, reward in zip(sample.responses, group, strict=True):
                response.reward, response.exact_match = reward, float(reward == 1.0)

    def batch(self) -> Batch:
        return self.learner.assemble(self.samples)

    def weights(self) -> Tensor:
        return torch.cat([torch.from_numpy(array).flatten() for array in export_arrays(self.model).values()])


def values_of(result: dict[str, float | list[float]], name: str) -> list[float]:
    value = result[name]
    assert isinstance(value, list)
    return value


def test_on_policy_every_importance_ratio_is_one() -> None:
    setup = Setup([[0.0, 1.0, 0.5, 0.0]] * 6)
    result = setup.learner.step(setup.batch())
    assert values_of(result.values, "importance_ratio") == pytest.approx([1.0] * result.token_count, abs=1e-5)
    assert result.values["effective_sample_size_ratio"] == pytest.approx(1.0, abs=1e-5)
    assert result.values["kl_behaviour"] == pytest.approx(0.0, abs=1e-6)
    assert result.values["clip_ratio"] == 0.0


def test_the_ratio_is_against_the_log_probs_stored_at_decoding() -> None:
    setup = Setup([[0.0, 1.0, 0.5, 0.0]] * 6)
    for response in setup.samples[0].responses:
        response.log_probs = [log_prob - math.log(2) for log_prob in response.log_probs]
    ratios = values_of(setup.learner.step(setup.batch()).values, "importance_ratio")
    first = sum(len(response.token_ids) for response in setup.samples[0].responses)
    assert ratios[:first] == pytest.approx([2.0] * first, abs=1e-4)
    assert ratios[first:] == pytest.approx([1.0] * (len(ratios) - first), abs=1e-5)


def test_a_step_makes_the_rewarded_response_likelier() -> None:
    setup = Setup([[0.0, 1.0]] * 4, OptimizerConfig(warmup_steps=0))
    batch = setup.batch()
    before = setup.weights()
    setup.learner.step(batch)
    ratios = torch.tensor(values_of(setup.learner.step(batch).values, "importance_ratio"))
    assert not torch.equal(before, setup.weights())
    assert ratios[batch.advantages > 0].mean() > 1.0 > ratios[batch.advantages < 0].mean()


def test_groups_without_variance_are_filtered_but_reported() -> None:
    setup = Setup([[0.5, 0.5], [0.0, 1.0], [1.0, 1.0]])
    batch = setup.batch()
    result = setup.learner.step(batch)
    assert batch.kept == [False, True, False]
    assert result.trained_sample_count == 1
    assert result.token_count == sum(len(response.token_ids) for response in setup.samples[1].responses)
    assert result.values["reward"] == [0.5, 0.5, 0.0, 1.0, 1.0, 1.0]
    assert result.values["exact_match_ratio"] == 0.5
    assert values_of(result.values, "advantage") == pytest.approx([-1.0, 1.0], abs=1e-3)
    assert len(values_of(result.values, "response_length")) == 6
    assert set(result.values) == MODEL_METRICS | SAMPLE_METRICS


def test_a_step_with_every_group_filtered_makes_no_update_and_has_no_loss() -> None:
    setup = Setup([[0.5, 0.5], [1.0, 1.0]])
    before = setup.weights()
    result = setup.learner.step(setup.batch())
    assert (result.updated, result.trained_sample_count, result.token_count) == (False, 0, 0)
    assert set(result.values) == SAMPLE_METRICS
    assert (setup.learner.step_count, setup.learner.update_count) == (1, 0)
    assert torch.equal(before, setup.weights())


def test_a_loss_that_is_not_finite_is_reported_and_changes_nothing() -> None:
    setup = Setup([[0.0, 1.0], [0.0, float("nan")]])
    before = setup.weights()
    result = setup.learner.step(setup.batch())
    assert not result.updated
    assert isinstance(result.values["policy_loss"], float)
    assert math.isnan(result.values["policy_loss"])
    assert torch.equal(before, setup.weights())
    healthy = Setup([[0.0, 1.0]])
    assert setup.learner.step(setup.learner.assemble(healthy.samples)).updated


def test_a_tail_batch_of_one_sample_trains() -> None:
    setup = Setup([[0.0, 1.0]])
    assert setup.learner.step(setup.batch()).updated
    assert setup.learner.update_count == 1


def test_the_advantages_can_be_replaced() -> None:
    setup = Setup([[0.0, 1.0]] * 2)
    learner = Learner(
        setup.model,
        build_model(ModelConfig(), seed=1, device=CPU)[1],
        GrpoConfig(),
        OptimizerConfig(),
        CPU,
        advantages=lambda rewards: (torch.full_like(rewards, 3.0), torch.tensor([True, False])),
    )
    batch = learner.assemble(setup.samples)
    assert batch.kept == [True, False]
    assert learner.step(batch).values["advantage"] == [3.0, 3.0]


@pytest.mark.parametrize(
    ("step", "rate"),
    [(1, 2e-4), (4, 8e-4), (6, 1e-3 * (1 - 0.9 * 6 / 320)), (160, 5.5e-4), (320, 1e-4), (400, 1e-4)],
)
def test_the_learning_rate_warms_up_and_falls_to_a_tenth(step: int, rate: float) -> None:
    assert OptimizerConfig().learning_rate_at(step) == pytest.approx(rate)


def test_the_schedule_advances_with_every_step() -> None:
    setup = Setup([[0.5, 0.5]])
    setup.learner.step(setup.batch())
    other = Setup([[0.0, 1.0]])
    assert setup.learner.step(setup.learner.assemble(other.samples)).values["learning_rate"] == pytest.approx(
        4e-4
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("learning_rate", float("inf")),
        ("total_steps", 0),
        ("warmup_steps", -1),
        ("final_fraction", 1.5),
        ("betas", (0.9, 1.0)),
        ("weight_decay", float("nan")),
        ("max_grad_norm", 0.0),
    ],
)
def test_a_setting_out_of_range_is_refused(name: str, value: Any) -> None:
    with pytest.raises(RuntimeConfigError, match=name):
        OptimizerConfig(**{name: value})
