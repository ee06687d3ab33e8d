"""Group relative policy optimisation, in pure tensors.

Shapes: P prompts, G responses of each, N response tokens of the whole batch (no padding among them).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from runtime.config import GrpoConfig


def group_advantages(rewards: Tensor) -> tuple[Tensor, Tensor]:
    """Advantages (P, G) within each group, and (P,) True for the groups that have any.

    A = (r - mean) / (std + 1e-4) over the group, GRPO section 4.1.2 (arXiv:2402.03300), with the population's
    std. A group whose rewards are all equal says nothing about the policy: DAPO's dynamic sampling
    (arXiv:2503.14476, section 3.2) leaves it out. Rewards 0, 1 give -1, 1 (up to the 1e-4).
    """
    exact = rewards.double()  # in single precision, equal rewards may differ from their own mean
    mean = exact.mean(dim=1, keepdim=True)
    std = exact.std(dim=1, keepdim=True, correction=0)
    return ((exact - mean) / (std + 1e-4)).to(rewards.dtype), rewards.amax(dim=1) != rewards.amin(dim=1)


@dataclass(frozen=True, slots=True)
class TokenLoss:
    """The loss of a batch, and what there is to say about it."""

    loss: Tensor
    """(): what is minimised, the entropy bonus included."""
    ratio: Tensor
    """(N,): importance ratio of each token, detached."""
    scalars: dict[str, Tensor]
    """Means over the N tokens by metric name, detached."""


def token_loss(
    log_probs: Tensor, behaviour_log_probs: Tensor, advantages: Tensor, entropy: Tensor, config: GrpoConfig
) -> TokenLoss:
    """The clipped surrogate over N tokens; all four tensors are (N,).

    loss = -mean(min(ratio A, clip(ratio, 1 - low, 1 + high) A)) - c mean(entropy), ratio = pi / pi_behaviour.
    PPO's objective (arXiv:1707.06347, eq. 7) with the behaviour policy that decoded each token as the old one,
    which is what bounds the harm of stale samples; clip-higher and the mean over all tokens of the batch are
    DAPO's (arXiv:2503.14476, sections 3.1 and 3.3).
    """
    log_ratio = log_probs - behaviour_log_probs
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - config.clip_low, 1 + config.clip_high)
    policy_loss = -torch.minimum(ratio * advantages, clipped * advantages).mean()
    with torch.no_grad():
        # The k3 estimator of KL(behaviour || current), http://joschu.net/blog/kl-approx.html: never negative.
        kl_behaviour = (ratio - 1 - log_ratio).mean()
        clip_ratio = (ratio * advantages > clipped * advantages).float().mean()
        # Kish: (sum w)^2 / (N sum w^2); 1 on policy, 1/N when one token carries all the weight. Rounding alone
        # takes it above 1, where it would be refused as out of range.
        effective_sample_size_ratio = (ratio.sum() ** 2 / (len(ratio) * (ratio**2).sum())).clamp(max=1.0)
    return TokenLoss(
        loss=policy_loss - config.entropy_coefficient * entropy.mean(),
        ratio=ratio.detach(),
        scalars={
            "policy_loss": policy_loss.detach(),
            "entropy": entropy.detach().mean(),
            "kl_behaviour": kl_behaviour,
            "clip_ratio": clip_ratio,
            "effective_sample_size_ratio": effective_sample_size_ratio,
        },
    )
