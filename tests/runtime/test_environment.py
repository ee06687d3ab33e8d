import re
import sys
from pathlib import Path

import pytest

from runtime.environment import load_environment
from runtime.errors import RuntimeConfigError
from runtime.sort_task import SortTask

USER_MODULE = """
from runtime.types import Prompt, Score

class Once:
    def __init__(self, *, seed):
        self.left = [Prompt(prompt_id="p", text=str(seed), answer="")]
    def draw(self):
        return self.left.pop() if self.left else None
    def score(self, prompt, response_text):
        return Score(reward=1.0, exact_match=1.0)
"""


def test_the_default_environment_loads_by_name() -> None:
    assert isinstance(load_environment("runtime.sort_task:SortTask", seed=3), SortTask)


def test_a_class_in_the_working_directory_is_found_and_gets_the_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_environment_once.py").write_text(USER_MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    environment = load_environment("my_environment_once:Once", seed=41)
    prompt = environment.draw()
    assert prompt is not None
    assert prompt.text == "41"
    assert environment.draw() is None
    assert sys.path[-1] == str(tmp_path)


def test_a_folder_named_like_an_installed_package_does_not_replace_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runtime").mkdir()
    (tmp_path / "runtime" / "__init__.py").write_text("raise AssertionError('imported')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    load_environment("runtime.sort_task:SortTask", seed=0)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("runtime.sort_task", 'must be "module:Class"'),
        (":SortTask", 'must be "module:Class"'),
        ("no_such_module_anywhere:Task", "No module named 'no_such_module_anywhere'"),
        ("runtime.sort_task:Sorted", "has no class 'Sorted'"),
        ("runtime.sort_task:DIGITS", "has no class 'DIGITS'"),
        ("tests.environments:NoScore", "must have the methods draw() and score(), has no score"),
        ("tests.environments:NoData", "could not be made, FileNotFoundError: no prompts.jsonl"),
    ],
)
def test_a_wrong_name_says_what_is_wrong(spec: str, reason: str) -> None:
    with pytest.raises(RuntimeConfigError, match=re.escape(reason)):
        load_environment(spec, seed=0)
