"""The embedded default task: sort 3 to 5 digits. A two-core CPU learns it in about a minute."""

import random
from itertools import zip_longest

from runtime.types import Prompt, Score

DIGITS = "01234"
LENGTHS = (3, 4, 5)


class SortTask:
    """Endless prompts like `s3120=`, whose answer is `0123`.

    The reward is half positional credit, half exact match: `0132` for `0123` has 2 of 4 positions right and
    earns 0.25. Exact match alone is too sparse a reward to start from.
    """

    def __init__(self, *, seed: int) -> None:
        self._random = random.Random(seed)
        self._drawn = 0

    def draw(self) -> Prompt:
        digits = self._random.choices(DIGITS, k=self._random.choice(LENGTHS))
        self._drawn += 1
        return Prompt(
            prompt_id=f"sort-{self._drawn}", text=f"s{''.join(digits)}=", answer="".join(sorted(digits))
        )

    def score(self, prompt: Prompt, response_text: str) -> Score:
        right = sum(a == b for a, b in zip_longest(prompt.answer, response_text))
        exact = float(response_text == prompt.answer)
        positional = right / max(len(prompt.answer), len(response_text))
        return Score(reward=0.5 * positional + 0.5 * exact, exact_match=exact)
