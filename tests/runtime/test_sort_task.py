import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.sort_task import SortTask
from runtime.tokenizer import SymbolTokenizer
from runtime.types import Prompt

PROMPT = Prompt(prompt_id="sort-1", text="s3120=", answer="0123")


def test_prompts_ask_for_three_to_five_digits_in_order() -> None:
    task = SortTask(seed=1)
    lengths = set()
    for _ in range(200):
        prompt = task.draw()
        assert prompt.text[0] + prompt.text[-1] == "s="
        assert set(prompt.text[1:-1]) <= set("01234")
        assert prompt.answer == "".join(sorted(prompt.text[1:-1]))
        lengths.add(len(prompt.answer))
    assert lengths == {3, 4, 5}


def test_a_seed_fixes_the_prompts() -> None:
    def texts(seed: int) -> list[str]:
        task = SortTask(seed=seed)
        return [task.draw().text for _ in range(20)]

    assert texts(1) == texts(1) != texts(2)


@pytest.mark.parametrize(
    ("response", "reward", "exact_match"),
    [
        ("0123", 1.0, 1.0),
        ("0132", 0.25, 0.0),  # 2 of 4 right
        ("01234", 0.4, 0.0),  # 4 of 5 right: the longer length counts
        ("012", 0.375, 0.0),  # 3 of 4 right
        ("", 0.0, 0.0),
        ("4444", 0.0, 0.0),
    ],
)
def test_half_the_reward_is_positional_and_half_is_exact(
    response: str, reward: float, exact_match: float
) -> None:
    score = SortTask(seed=0).score(PROMPT, response)
    assert score.reward == pytest.approx(reward)
    assert score.exact_match == exact_match


@given(response=st.text(alphabet=SymbolTokenizer.CHARACTERS, max_size=7))
def test_only_the_answer_earns_more_than_half(response: str) -> None:
    score = SortTask(seed=0).score(PROMPT, response)
    assert 0.0 <= score.reward <= 1.0
    assert (score.reward > 0.5) == (score.exact_match == 1.0) == (response == PROMPT.answer)
