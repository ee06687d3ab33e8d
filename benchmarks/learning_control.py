"""Does the reward teach? Real advantages beside shuffled ones, everything else equal, in one process without Ray.

    python -m benchmarks.learning_control [--steps 40] [--seed 1]

With shuffled advantages each response is credited with another one's success: a loop that still "learns" has a
bug that leaks the answer elsewhere.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from benchmarks.machine import machine
from runtime.config import EngineConfig, GrpoConfig, ModelConfig, OptimizerConfig
from runtime.engine import Engine
from runtime.environment import load_environment
from runtime.evaluation import HELD_OUT_SEED, exact_match_greedy
from runtime.grpo import group_advantages
from runtime.learner import Learner
from runtime.model import build_model, export_arrays, warm_start
from runtime.types import Sample, Ticket

ENVIRONMENT = "runtime.sort_task:SortTask"
MAX_NEW_TOKENS = 7

Advantages = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


def shuffled_advantages(seed: int) -> Advantages:
    """The real advantages of the kept groups, dealt to the responses of these groups at random."""
    generator = torch.Generator().manual_seed(seed)

    def advantages(rewards: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        real, kept = group_advantages(rewards)
        order = torch.randperm(real[kept].numel(), generator=generator)
        shuffled = real.clone()
        shuffled[kept] = real[kept].flatten()[order].view_as(real[kept])
        return shuffled, kept

    return advantages


@dataclass(frozen=True, kw_only=True, slots=True)
class Learning:
    """What one training run achieved, and the time that its halves took."""

    exact_match: list[float]
    """Sampled, of each step."""
    greedy: float
    """Of the final weights, on held-out prompts."""
    generate_seconds: float
    train_seconds: float


def learn(
    steps: int, *, seed: int, advantages: Advantages = group_advantages, total_steps: int = 320
) -> Learning:
    """Synchronous GRPO: generate with the newest weights, train one step, 32 prompts x 8 responses each time."""
    prompts, group_size, device = 32, 8, torch.device("cpu")
    model, tokenizer = build_model(ModelConfig(), seed=seed, device=device)
    environment = load_environment(ENVIRONMENT, seed=seed)
    warm_start(model, tokenizer, environment)
    acting, _ = build_model(ModelConfig(), seed=seed, device=device)
    engine_config = EngineConfig(capacity_responses=prompts * group_size, max_new_tokens=MAX_NEW_TOKENS)
    engine = Engine(acting, tokenizer, engine_config, seed=seed, device=device)
    optimizer = OptimizerConfig(total_steps=total_steps)
    learner = Learner(model, tokenizer, GrpoConfig(), optimizer, device, advantages)
    exact_match, generate_seconds, train_seconds = [], 0.0, 0.0
    for step in range(steps):
        started = time.monotonic()
        engine.load(export_arrays(model), param_version=step)
        for ticket_id in range(prompts):
            prompt = environment.draw()
            assert prompt is not None, "the sort task never ends"
            engine.admit(Ticket(ticket_id=ticket_id, prompt=prompt), group_size)
        samples: list[Sample] = []
        while engine.decoding:
            samples += engine.step()
        for sample in samples:
            for response in sample.responses:
                score = environment.score(sample.ticket.prompt, tokenizer.decode(response.token_ids))
                response.reward, response.exact_match = score.reward, score.exact_match
        generated = time.monotonic()
        values = learner.step(learner.assemble(samples)).values
        generate_seconds += generated - started
        train_seconds += time.monotonic() - generated
        exact_match_ratio = values["exact_match_ratio"]
        assert isinstance(exact_match_ratio, float)
        exact_match.append(exact_match_ratio)
    held_out = load_environment(ENVIRONMENT, seed=HELD_OUT_SEED)
    greedy = exact_match_greedy(model, tokenizer, held_out, max_new_tokens=MAX_NEW_TOKENS)
    return Learning(
        exact_match=exact_match, greedy=greedy, generate_seconds=generate_seconds, train_seconds=train_seconds
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(machine())
    print("advantages  first 5 steps  last 5 steps  greedy held out  generate ms/step  train ms/step")
    for name, advantages in (("real", group_advantages), ("shuffled", shuffled_advantages(arguments.seed))):
        result = learn(arguments.steps, seed=arguments.seed, advantages=advantages)
        first, last = result.exact_match[:5], result.exact_match[-5:]
        print(
            f"{name:<10}  {sum(first) / len(first):13.3f}  {sum(last) / len(last):12.3f}  {result.greedy:15.3f}"
            f"  {1000 * result.generate_seconds / arguments.steps:16.0f}"
            f"  {1000 * result.train_seconds / arguments.steps:13.0f}"
        )


if __name__ == "__main__":
    main()
