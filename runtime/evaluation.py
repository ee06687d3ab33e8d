"""Greedy exact match on held-out prompts."""

from transformers import PreTrainedModel

from runtime.config import EngineConfig
from runtime.engine import Engine
from runtime.environment import Environment
from runtime.tokenizer import Tokenizer
from runtime.types import Ticket

HELD_OUT_SEED = 2**32 - 1
"""Seed of the environment that evaluation draws from; training seeds stay below it."""


def exact_match_greedy(
    model: PreTrainedModel,
    tokenizer: Tokenizer,
    environment: Environment,
    *,
    max_new_tokens: int,
    prompt_count: int = 256,
) -> float:
    """Mean exact match of one greedy response to each of `prompt_count` prompts, in 0..1; NaN without a prompt.

    The prompts are the same at every call if `environment` is fresh and seeded with HELD_OUT_SEED.
    """
    config = EngineConfig(capacity_responses=prompt_count, max_new_tokens=max_new_tokens, temperature=0.0)
    engine = Engine(model, tokenizer, config, seed=0, device=next(model.parameters()).device)
    for ticket_id in range(prompt_count):
        if (prompt := environment.draw()) is None:
            break
        engine.admit(Ticket(ticket_id=ticket_id, prompt=prompt), group_size=1)
    scores = []
    while engine.decoding:
        for sample in engine.step():
            text = tokenizer.decode(sample.responses[0].token_ids)
            scores.append(environment.score(sample.ticket.prompt, text).exact_match)
    return sum(scores) / len(scores) if scores else float("nan")
