"""`make run` as the pages show it: what stands in ARGS reaches `asyncrl run`, all of it, in one command."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from shutil import copy

import pytest

from runtime.run import main

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/operations.md")
COMMAND = re.compile(r"^    (?:\w+=\S+ )?(make run ARGS='[^']*')", re.MULTILINE)
"""An example of a page: it may go on over lines, up to the closing quote."""
NAMED = re.compile(r"^```yaml\n# (?P<name>[\w-]+\.yml)\n(?P<content>.*?)^```$", re.MULTILINE | re.DOTALL)
"""A file of a page, whose first line is its name."""
STUB = f"""#!{sys.executable}
import json, sys
with open("calls", "a") as calls:
    print(json.dumps(sys.argv[1:]), file=calls)
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder in which all is installed, but an `asyncrl` that only notes how it was called."""
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    stub = tmp_path / ".venv" / "bin" / "asyncrl"
    stub.write_text(STUB, encoding="utf-8")
    stub.chmod(0o755)
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        copy(ROOT / name, tmp_path)
    (tmp_path / ".venv" / "installed").touch()
    return tmp_path


def calls(checkout: Path, command: str) -> list[list[str]]:
    """The arguments of each `asyncrl` that a shell starts by `command`."""
    environment = {
        name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")
    }
    done = subprocess.run(
        ["sh", "-c", command], cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    return [json.loads(line) for line in (checkout / "calls").read_text(encoding="utf-8").splitlines()]


def test_an_argument_on_a_line_of_its_own_is_not_dropped(checkout: Path) -> None:
    command = "make run ARGS='--set seed=1\n     --set run_id=r   --versions 3\n'"
    assert calls(checkout, command) == [["run", "--set", "seed=1", "--set", "run_id=r", "--versions", "3"]]


def test_every_make_run_of_the_pages_is_one_run_with_settings_that_there_are(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = [(ROOT / page).read_text(encoding="utf-8") for page in PAGES]
    for file in (file for page in pages for file in NAMED.finditer(page)):
        (checkout / file["name"]).write_text(file["content"], encoding="utf-8")
    shown = [command for page in pages for command in COMMAND.findall(page)]
    assert len(shown) >= 3
    monkeypatch.chdir(checkout)
    for command in shown:
        (checkout / "calls").unlink(missing_ok=True)
        ((verb, *arguments),) = calls(checkout, command)
        assert verb == "run"
        assert " ".join(arguments) == " ".join(command.partition("'")[2].rstrip("'").split()), (
            "nothing is lost"
        )
        assert main([*arguments, "--dry-run"]) == 0, capsys.readouterr().err
