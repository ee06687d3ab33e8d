import torch

from benchmarks.learning_control import Learning, learn, shuffled_advantages
from runtime.grpo import group_advantages


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def test_real_advantages_teach_and_shuffled_ones_do_not() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        real, shuffled = (
            learn(40, seed=0, advantages=advantages)
            for advantages in (group_advantages, shuffled_advantages(seed=0))
        )
    finally:
        torch.set_num_threads(threads)

    def rise(learning: Learning) -> float:
        return mean(learning.exact_match[-10:]) - mean(learning.exact_match[:10])

    # Measured over seeds 0 to 13: real rises by 0.07 to 0.31 and shuffled falls by 0.06 to 0.15, to 0.00;
    # greedy exact match 0.44 to 0.75 beside 0.00.
    assert rise(real) > 0.05
    assert rise(shuffled) < 0.0
    assert real.greedy > shuffled.greedy + 0.2


def test_shuffling_deals_the_same_advantages_to_other_responses() -> None:
    rewards = torch.rand((8, 4), generator=torch.Generator().manual_seed(1))
    rewards[3] = 0.5
    real, kept = group_advantages(rewards)
    shuffled, shuffled_kept = shuffled_advantages(seed=1)(rewards)
    assert torch.equal(kept, shuffled_kept)
    assert not torch.equal(real, shuffled)
    assert torch.equal(real[kept].flatten().sort().values, shuffled[kept].flatten().sort().values)
