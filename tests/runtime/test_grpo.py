import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from runtime.config import GrpoConfig
from runtime.errors import RuntimeConfigError
from runtime.grpo import TokenLoss, group_advantages, token_loss

NO_ENTROPY = GrpoConfig(entropy_coefficient=0.0)


def loss_of(ratios: list[float], advantages: list[float], config: GrpoConfig = NO_ENTROPY) -> TokenLoss:
    behaviour = torch.full((len(ratios),), -1.0)
    log_probs = behaviour + torch.tensor(ratios).log()
    return token_loss(log_probs, behaviour, torch.tensor(advantages), torch.zeros(len(ratios)), config)


def test_advantages_are_standard_scores_within_the_group() -> None:
    advantages, kept = group_advantages(torch.tensor([[0.0, 1.0], [0.2, 0.2], [10.0, 14.0]]))
    assert kept.tolist() == [True, False, True]
    assert advantages[0].tolist() == pytest.approx([-1.0, 1.0], abs=1e-3)
    assert advantages[2].tolist() == pytest.approx([-1.0, 1.0], abs=1e-3)


def test_a_group_of_one_has_no_advantage() -> None:
    _, kept = group_advantages(torch.tensor([[0.7]]))
    assert kept.tolist() == [False]


@given(st.lists(st.floats(-100, 100, width=32), min_size=2, max_size=8))
def test_advantages_of_a_group_sum_to_zero(rewards: list[float]) -> None:
    advantages, kept = group_advantages(torch.tensor([rewards]))
    assert kept.item() == (len(set(rewards)) > 1)
    assert advantages.sum().item() == pytest.approx(0.0, abs=1e-5)


def test_on_policy_the_ratio_is_one_and_nothing_is_clipped() -> None:
    result = loss_of([1.0, 1.0], [1.0, -0.5])
    assert result.ratio.tolist() == [1.0, 1.0]
    assert {name: value.item() for name, value in result.scalars.items()} == {
        "policy_loss": -0.25,
        "entropy": 0.0,
        "kl_behaviour": 0.0,
        "clip_ratio": 0.0,
        "effective_sample_size_ratio": 1.0,
    }


def test_on_policy_the_gradient_is_the_policy_gradient() -> None:
    log_probs = torch.tensor([-1.0, -2.0], requires_grad=True)
    advantages = torch.tensor([1.0, -0.5])
    token_loss(log_probs, log_probs.detach(), advantages, torch.zeros(2), NO_ENTROPY).loss.backward()
    assert log_probs.grad is not None
    assert log_probs.grad.tolist() == [-0.5, 0.25]  # -A / N


@pytest.mark.parametrize(
    ("ratio", "advantage", "policy_loss", "clipped"),
    [
        (1.25, 1.0, -1.25, 0.0),  # below 1 + 0.28
        (1.50, 1.0, -1.28, 1.0),  # the gain is capped
        (1.50, -1.0, 1.50, 0.0),  # the penalty is not
        (0.50, 1.0, -0.50, 0.0),
        (0.50, -1.0, 0.80, 1.0),  # below 1 - 0.2
    ],
)
def test_clipping_caps_gains_only(ratio: float, advantage: float, policy_loss: float, clipped: float) -> None:
    scalars = loss_of([ratio], [advantage]).scalars
    assert scalars["policy_loss"].item() == pytest.approx(policy_loss)
    assert scalars["clip_ratio"].item() == clipped


def test_every_token_weighs_the_same_whatever_its_response() -> None:
    # A response of three tokens and one of a single token: (3 x -1 + 1 x 2) / 4, not (-1 + 2) / 2.
    assert loss_of([1.0] * 4, [1.0, 1.0, 1.0, -2.0]).scalars["policy_loss"].item() == pytest.approx(-0.25)


def test_effective_sample_size_and_kl_of_a_worked_example() -> None:
    scalars = loss_of([1.0, 3.0], [0.0, 0.0]).scalars
    assert scalars["effective_sample_size_ratio"].item() == pytest.approx(4**2 / (2 * 10))
    assert scalars["kl_behaviour"].item() == pytest.approx((0 + (3 - 1 - math.log(3))) / 2)


@given(st.lists(st.floats(0.01, 100.0), min_size=1, max_size=20))
def test_kl_is_not_negative_and_the_effective_size_is_a_ratio(ratios: list[float]) -> None:
    scalars = loss_of(ratios, [1.0] * len(ratios)).scalars
    assert scalars["kl_behaviour"].item() >= -1e-6
    assert 1 / len(ratios) - 1e-5 <= scalars["effective_sample_size_ratio"].item() <= 1


def test_the_entropy_bonus_lowers_the_loss_but_is_not_in_the_policy_loss() -> None:
    zeros = torch.zeros(2)
    result = token_loss(zeros, zeros, zeros, torch.tensor([1.0, 3.0]), GrpoConfig(entropy_coefficient=0.01))
    assert result.loss.item() == pytest.approx(-0.02)
    assert result.scalars["policy_loss"].item() == 0.0
    assert result.scalars["entropy"].item() == 2.0


@pytest.mark.parametrize(
    "setting", [{"clip_low": 1.5}, {"clip_high": -0.1}, {"entropy_coefficient": float("nan")}]
)
def test_a_setting_out_of_range_is_refused(setting: dict[str, float]) -> None:
    (name,) = setting
    with pytest.raises(RuntimeConfigError, match=name):
        GrpoConfig(**setting)
