"""Training: samples in, one optimizer step, and what it measured.

Shapes: P samples, G responses of each, R responses that are trained on, T tokens, N response tokens, V vocabulary.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress

import torch
from torch import Tensor
from transformers import PreTrainedModel

from runtime.config import GrpoConfig, OptimizerConfig
from runtime.grpo import TokenLoss, group_advantages, token_loss
from runtime.model import autocast, right_pad
from runtime.tokenizer import Tokenizer
from runtime.types import Sample


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Consumed samples, made ready. What is trained on lies in the tensors; the rest covers all of them."""

    token_ids: Tensor
    """(R, T) prompts and responses of the kept groups, padded on the right."""
    is_response: Tensor
    """(R, T) bool: the N response tokens, in row-major order."""
    behaviour_log_probs: Tensor
    """(N,) of the policy that decoded each token."""
    advantages: Tensor
    """(N,) of the response that each token belongs to."""
    kept: list[bool]
    """(P,) False for the groups filtered for want of variance."""
    values: Mapping[str, float | list[float]]
    """Metrics of all P samples before filtering, and `advantage` of the kept ones."""

    @property
    def trained_sample_count(self) -> int:
        return sum(self.kept)

    @property
    def token_count(self) -> int:
        return len(self.behaviour_log_probs)


@dataclass(frozen=True, kw_only=True, slots=True)
class StepResult:
    """What one train step measured; the values of its `asyncrl.train_step` span that a learner can know."""

    values: dict[str, float | list[float]]
    """By metric name; a distribution is the list of its values. Without a trained sample, no metric of the loss."""
    trained_sample_count: int
    token_count: int
    updated: bool
    """False if every group was filtered, or the loss or its gradient was not finite."""


class Learner:
    """Owns the optimizer of `model`. One `step` per batch; at most one update per step.

    `advantages` maps rewards (P, G) to advantages (P, G) and kept groups (P,): a control experiment replaces it.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: Tokenizer,
        grpo: GrpoConfig,
        optimizer: OptimizerConfig,
        device: torch.device,
        advantages: Callable[[Tensor], tuple[Tensor, Tensor]] = group_advantages,
    ) -> None:
        self.step_count = 0
        self.update_count = 0
        self._model = model
        self._tokenizer = tokenizer
        self._grpo = grpo
        self._config = optimizer
        self._device = device
        self._advantages = advantages
        self._optimizer = torch.optim.AdamW(
            model.parameters(),
            lr=optimizer.learning_rate,
            betas=optimizer.betas,
            weight_decay=optimizer.weight_decay,
        )

    def assemble(self, samples: Sequence[Sample]) -> Batch:
        """Any number P >= 1 of samples with groups of one size G."""
        rewards = torch.tensor([[response.reward for response in sample.responses] for sample in samples])
        advantages, kept_groups = self._advantages(rewards)  # (P, G), (P,)
        kept: list[bool] = kept_groups.tolist()
        rows = [(s.prompt_token_ids, response) for s in compress(samples, kept) for response in s.responses]
        token_ids, is_response = right_pad(
            [prompt for prompt, _ in rows],
            [prompt + response.token_ids for prompt, response in rows],
            self._tokenizer.pad_id,
        )
        lengths = torch.tensor([len(response.token_ids) for _, response in rows], dtype=torch.long)
        row_advantages = advantages[kept_groups].flatten()  # (R,)
        responses = [response for sample in samples for response in sample.responses]
        return Batch(
            token_ids=token_ids.to(self._device),
            is_response=is_response.to(self._device),
            behaviour_log_probs=torch.tensor(
                [log_prob for _, response in rows for log_prob in response.log_probs], device=self._device
            ),
            advantages=row_advantages.repeat_interleave(lengths).to(self._device),
            kept=kept,
            values={
                "reward": [response.reward for response in responses],
                "exact_match_ratio": sum(response.exact_match for response in responses) / len(responses),
                "response_length": [float(len(response.token_ids)) for response in responses],
                "advantage": row_advantages.tolist(),
            },
        )

    def step(self, batch: Batch) -> StepResult:
        """One optimizer step on the batch.

        The schedule advances with every step, updated or not, so that it ends with the run. A loss or
        gradient that is not finite is reported as it is and changes nothing.
        """
        self.step_count += 1
        values = dict(batch.values)
        updated = False
        if batch.trained_sample_count:
            loss_values, updated = self._update(batch)
            values |= loss_values
        else:
            del values["advantage"]
        if self._device.type == "cuda":
            # Kernels run behind the host: without this, the step would end before its work does.
            torch.cuda.synchronize(self._device)
            values["gpu_memory_allocated_bytes"] = float(torch.cuda.memory_allocated(self._device))
        return StepResult(
            values=values,
            trained_sample_count=batch.trained_sample_count,
            token_count=batch.token_count,
            updated=updated,
        )

    def _update(self, batch: Batch) -> tuple[dict[str, float | list[float]], bool]:
        learning_rate = self._config.learning_rate_at(self.step_count)
        self._optimizer.zero_grad()
        result = self._loss(batch)
        result.loss.backward()
        grad_norm = torch.nn.utils.clip_grad_norm_(self._model.parameters(), self._config.max_grad_norm)
        updated = bool(torch.isfinite(result.loss + grad_norm))
        if updated:
            self._optimizer.param_groups[0]["lr"] = learning_rate
            self._optimizer.step()
            self.update_count += 1
        values: dict[str, float | list[float]] = {
            **{name: value.item() for name, value in result.scalars.items()},
            "importance_ratio": result.ratio.tolist(),
            "grad_norm": grad_norm.item(),
            "learning_rate": learning_rate,
        }
        return values, updated

    def _loss(self, batch: Batch) -> TokenLoss:
        with autocast(self._device):
            logits = self._model(input_ids=batch.token_ids, use_cache=False).logits  # (R, T, V)
        # The logits of column t predict the token of column t + 1.
        predicts_response = batch.is_response[:, 1:]  # (R, T-1)
        log_softmax = torch.log_softmax(logits[:, :-1][predicts_response].float(), dim=-1)  # (N, V)
        targets = batch.token_ids[:, 1:][predicts_response]  # (N,)
        return token_loss(
            log_softmax.gather(1, targets[:, None])[:, 0],
            batch.behaviour_log_probs,
            batch.advantages,
            -(log_softmax.exp() * log_softmax).sum(dim=-1),
            self._grpo,
        )
