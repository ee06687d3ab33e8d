"""The example of docs/environments.md is executed as it stands."""

import json
import re
from pathlib import Path

import pytest

from runtime.environment import load_environment
from runtime.tokenizer import SymbolTokenizer

PAGE = Path(__file__).parents[2] / "docs" / "environments.md"


def test_example_draws_the_rows_of_its_file_in_the_seeds_order_and_scores_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = PAGE.read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (spec,) = re.findall(r"environment=(\S+)", page)
    (tmp_path / f"{spec.split(':')[0]}.py").write_text(code)
    rows = [{"question": f"{a}+5=", "answer": str(a + 5)} for a in range(10, 20)]
    (tmp_path / "additions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def questions(seed: int) -> list[str]:
        environment = load_environment(spec, seed=seed)
        return [prompt.text for prompt in iter(environment.draw, None)]

    assert sorted(questions(0)) == sorted(row["question"] for row in rows)
    assert questions(0) == questions(0) != questions(1)
    environment = load_environment(spec, seed=0)
    prompt = environment.draw()
    assert prompt is not None
    SymbolTokenizer().encode(prompt.text + prompt.answer)
    assert environment.score(prompt, prompt.answer).reward == 1.0
    half = environment.score(prompt, prompt.answer[0])
    assert (half.reward, half.exact_match) == (0.25, 0.0)


def test_page_names_the_characters_that_the_embedded_model_knows() -> None:
    assert f"`{SymbolTokenizer.CHARACTERS}`" in PAGE.read_text()
