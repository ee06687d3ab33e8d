"""Generation that can be interrupted between any two tokens: continuous batching over a padded KV cache.

Shapes: B responses now decoding, T tokens of this forward pass, S columns of the cache, V vocabulary.

              admit()                    step()                          step()
    Ticket ----------> admitted samples -------> rows of the batch -------------------> finished Samples
                                        prefill   sample one token each, retire the finished,
                                                  forward the rest
    load() swaps the weights between two steps and recomputes the cache of every row's prefix.
"""

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.nn.functional import pad
from transformers import DynamicCache, PreTrainedModel

from runtime.config import EngineConfig
from runtime.model import autocast, load_arrays
from runtime.tokenizer import Tokenizer
from runtime.types import Response, Sample, Ticket


class Engine:
    """Decodes with any Hugging Face causal LM whose layers keep keys and values.

    Each token is appended with its log-prob under the temperature-1 policy and the version that decoded it;
    what has been appended never changes. The batch is padded on the left, so that all rows append in the last
    column: row b occupies the columns S - length(b) .. S - 1.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: Tokenizer,
        config: EngineConfig,
        *,
        seed: int,
        device: torch.device,
        param_version: int = 0,
        rollouter: str = "0",
    ) -> None:
        self.param_version = param_version
        self._model = model
        self._tokenizer = tokenizer
        self._config = config
        self._device = device
        self._rollouter = rollouter
        self._generator = torch.Generator(device).manual_seed(seed)
        # transformers 5 renames the argument within its series; the old name then warns.
        parameters = inspect.signature(model.forward).parameters
        self._cache_argument = "cache" if "cache" in parameters else "past_key_values"
        self._admitted: list[Sample] = []
        self._rows: list[tuple[Sample, Response]] = []
        self._cache = DynamicCache()
        self._next_logits = torch.empty(0)  # (B, V): of the token that each row samples next

    @property
    def decoding(self) -> int:
        """Responses in the engine that have not finished."""
        return len(self._rows) + sum(len(sample.responses) for sample in self._admitted)

    @property
    def free(self) -> int:
        """Responses that may still be admitted."""
        return self._config.capacity_responses - self.decoding

    def admit(self, ticket: Ticket, group_size: int) -> None:
        """Take a prompt in; its `group_size` responses decode from the next step on, beside the others."""
        if group_size > self.free:
            raise RuntimeError(
                f"ticket {ticket.ticket_id} needs {group_size} places, {self.free} of "
                f"{self._config.capacity_responses} are free"
            )
        self._admitted.append(
            Sample(
                ticket=ticket,
                prompt_token_ids=self._tokenizer.encode(ticket.prompt.text),
                responses=[Response(index=index) for index in range(group_size)],
                rollouter=self._rollouter,
            )
        )

    @torch.inference_mode()
    def step(self) -> list[Sample]:
        """Decode one token of every response; returns the samples whose last response has just finished."""
        if self._admitted:
            self._prefill_admitted()
        if not self._rows:
            return []
        self._sample_tokens()
        finished = self._retire_finished()
        if self._rows:
            last_tokens = [[response.token_ids[-1]] for _, response in self._rows]
            lengths = [len(prefix) for prefix in self._prefixes()]
            self._next_logits = self._forward(last_tokens, lengths, self._cache)
        return finished

    @torch.inference_mode()
    def load(self, arrays: dict[str, np.ndarray], param_version: int) -> None:
        """Continue every response under other weights: tokens, log-probs and versions so far are kept."""
        load_arrays(self._model, arrays)
        self.param_version = param_version
        if self._rows:
            self._cache, self._next_logits = self._prefill(self._prefixes())

    def _prefixes(self) -> list[list[int]]:
        return [sample.prompt_token_ids + response.token_ids for sample, response in self._rows]

    def _prefill_admitted(self) -> None:
        """The responses of a group share one prefill of their prompt."""
        cache, logits = self._prefill([sample.prompt_token_ids for sample in self._admitted])
        new_rows = [(sample, response) for sample in self._admitted for response in sample.responses]
        copies = torch.tensor([len(sample.responses) for sample in self._admitted], device=self._device)
        prompt_of_row = torch.arange(len(copies), device=self._device).repeat_interleave(copies)
        cache.batch_select_indices(prompt_of_row)
        logits = logits[prompt_of_row]
        if self._rows:
            cache = _stack(self._cache, cache)
            logits = torch.cat([self._next_logits, logits])
        self._cache, self._next_logits = cache, logits
        self._rows += new_rows
        self._admitted = []

    def _prefill(self, prefixes: list[list[int]]) -> tuple[DynamicCache, torch.Tensor]:
        """A fresh cache of the prefixes, and the logits (B, V) of what follows them."""
        lengths = [len(prefix) for prefix in prefixes]
        width = max(lengths)
        padded = [[self._tokenizer.pad_id] * (width - len(prefix)) + prefix for prefix in prefixes]
        cache = DynamicCache()
        return cache, self._forward(padded, lengths, cache)

    def _forward(
        self, token_ids: Sequence[Sequence[int]], lengths: list[int], cache: DynamicCache
    ) -> torch.Tensor:
        """Extend `cache` by `token_ids` (B, T); returns the last column's logits (B, V).

        `lengths` counts each row's real tokens, these included; all to their left is padding.
        """
        inputs = torch.tensor(token_ids, device=self._device)  # (B, T)
        column = torch.arange(cache.get_seq_length() + inputs.shape[1], device=self._device)  # (S,)
        position = column - (len(column) - torch.tensor(lengths, device=self._device)[:, None])  # (B, S)
        with autocast(self._device):
            output = self._model(
                input_ids=inputs,
                attention_mask=(position >= 0).long(),
                position_ids=position[:, -inputs.shape[1] :].clamp(min=0),
                use_cache=True,
                logits_to_keep=1,
                **{self._cache_argument: cache},
            )
        logits: torch.Tensor = output.logits[:, -1].float()
        return logits

    def _sample_tokens(self) -> None:
        if self._config.temperature == 0.0:
            chosen = self._next_logits.argmax(dim=-1, keepdim=True)  # (B, 1)
        else:
            probabilities = torch.softmax(self._next_logits / self._config.temperature, dim=-1)
            chosen = torch.multinomial(probabilities, 1, generator=self._generator)  # (B, 1)
        log_probs = torch.log_softmax(self._next_logits, dim=-1).gather(1, chosen)
        for (_, response), token_id, log_prob in zip(
            self._rows, chosen[:, 0].tolist(), log_probs[:, 0].tolist(), strict=True
        ):
            response.token_ids.append(token_id)
            response.log_probs.append(log_prob)
            response.versions.append(self.param_version)
            if token_id == self._tokenizer.eos_id:
                response.finish_reason = "stop"
            elif len(response.token_ids) == self._config.max_new_tokens:
                response.finish_reason = "length"

    def _retire_finished(self) -> list[Sample]:
        """Drop finished rows and the columns that are padding in all others; returns completed samples."""
        kept = [row for row, (_, response) in enumerate(self._rows) if not response.finish_reason]
        if len(kept) == len(self._rows):
            return []
        touched = {id(sample): sample for sample, response in self._rows if response.finish_reason}
        self._rows = [self._rows[row] for row in kept]
        # The token just sampled is not in the cache yet.
        width = max((len(prefix) - 1 for prefix in self._prefixes()), default=0)
        rows = torch.tensor(kept, dtype=torch.long, device=self._device)
        layers: list[Any] = self._cache.layers
        for layer in layers:
            first = layer.keys.shape[2] - width
            layer.keys = layer.keys[rows, :, first:]  # (B, heads, S, head size)
            layer.values = layer.values[rows, :, first:]
        return [s for s in touched.values() if all(response.finish_reason for response in s.responses)]


def _stack(upper: DynamicCache, lower: DynamicCache) -> DynamicCache:
    """The rows of both caches in one, padded on the left to the wider."""
    width = max(upper.get_seq_length(), lower.get_seq_length())
    for layer, other in zip(upper.layers, lower.layers, strict=True):
        for name in ("keys", "values"):
            parts = [getattr(layer, name), getattr(other, name)]  # (B, heads, S, head size)
            padded = [pad(part, (0, 0, width - part.shape[2], 0)) for part in parts]
            setattr(layer, name, torch.cat(padded))
    return upper
