"""Environments that end, fail or dawdle: the sort task with one thing changed."""

import math
import threading
from dataclasses import replace
from typing import Any

from runtime.sort_task import SortTask
from runtime.types import Prompt, Score


class SortEnvironment:
    """Endless; what the others change."""

    prompt_count: int | None = None

    def __init__(self, *, seed: int) -> None:
        self._task = SortTask(seed=seed)
        self._drawn = 0

    def draw(self) -> Prompt | None:
        if self._drawn == self.prompt_count:
            return None
        self._drawn += 1
        return self._task.draw()

    def score(self, prompt: Prompt, response_text: str) -> Score:
        return self._task.score(prompt, response_text)


class Finite(SortEnvironment):
    """129 prompts, one more than two batches of 64."""

    prompt_count = 129


class Empty(SortEnvironment):
    prompt_count = 0


class NoData(SortEnvironment):
    def __init__(self, *, seed: int) -> None:
        raise FileNotFoundError("no prompts.jsonl")


class OneBadSample(Finite):
    """The fifth prompt cannot be scored."""

    def score(self, prompt: Prompt, response_text: str) -> Score:
        if prompt.prompt_id == "sort-5":
            raise ValueError("prompt 5 has no answer")
        return super().score(prompt, response_text)


class AllBad(SortEnvironment):
    def score(self, prompt: Prompt, response_text: str) -> Score:
        raise ValueError("no verifier installed")


class NotANumber(Finite):
    """The fifth prompt's reward is not finite, the sixth one's is no number."""

    def score(self, prompt: Prompt, response_text: str) -> Score:
        score = super().score(prompt, response_text)
        wrong: dict[str, Any] = {"sort-5": math.nan, "sort-6": "1.0"}
        return replace(score, reward=wrong.get(prompt.prompt_id, score.reward))


class StuckScore(SortEnvironment):
    """The scorer waits until the test releases it; for tests in one process."""

    released = threading.Event()

    def score(self, prompt: Prompt, response_text: str) -> Score:
        self.released.wait()
        return super().score(prompt, response_text)


class NoScore:
    def __init__(self, *, seed: int) -> None:
        self._task = SortTask(seed=seed)

    def draw(self) -> Prompt:
        return self._task.draw()


class NoDraw(SortEnvironment):
    def draw(self) -> Prompt | None:
        raise OSError("prompts.jsonl is empty")


class Letters(SortEnvironment):
    """Prompts that the embedded model cannot read."""

    def draw(self) -> Prompt:
        return Prompt(prompt_id="a", text="What is 1+1?", answer="2")
