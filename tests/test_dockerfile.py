"""The Dockerfile as it is written: a linter, and what its last stages may hold."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.dockerfile import Instruction, Stage, read_dockerfile

ROOT = Path(__file__).parent.parent
STAGES = read_dockerfile(ROOT / "Dockerfile")
TARGETS = ("exporter", "runtime")
IGNORED = {
    "DL3008": "pinned versions of packages: Debian takes the old one off its servers with each fix, and the build fails"
}


def final(target: str) -> Stage:
    return STAGES[target]


def test_the_linter_finds_nothing() -> None:
    program = Path(sys.executable).parent / "hadolint"
    if not program.exists() and not os.environ.get("ASYNCRL_REQUIRE_ALL"):
        pytest.skip("hadolint is not installed; its package has no build for this machine")
    ignore = [word for rule in IGNORED for word in ("--ignore", rule)]
    lint = subprocess.run(
        [program, "--no-color", *ignore, ROOT / "Dockerfile"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (lint.returncode, lint.stdout) == (0, "")


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_ends_as_a_user_that_is_a_number_and_not_root(target: str) -> None:
    user, _, group = final(target).last("USER").text.partition(":")
    assert (user.isdecimal(), group.isdecimal()) == (True, True)
    assert "0" not in (user, group)


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_gets_the_finished_environment_and_installs_nothing(target: str) -> None:
    stage = final(target)
    assert stage.parent == "python"
    (copy,) = stage.of("COPY")
    assert copy.options == {"from": f"{target}-venv"}
    for stage in (STAGES["python"], final(target)):
        assert not any("pip" in run.text or "venv" in run.text for run in stage.of("RUN"))


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_says_what_it_is_and_how_its_health_is_asked(target: str) -> None:
    labels = dict(word.split("=", 1) for word in final(target).last("LABEL").words)
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert {"org.opencontainers.image.title", "org.opencontainers.image.description"} <= labels.keys()
    assert final(target).last("HEALTHCHECK").text.startswith("NONE" if target == "runtime" else "CMD")


def test_the_context_holds_what_is_copied_and_no_more() -> None:
    copied = {
        source.rstrip("/")
        for stage in STAGES.values()
        for copy in stage.of("COPY")
        if "from" not in copy.options
        for source in copy.words[:-1]
    }
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert {rule.removeprefix("!") for rule in rules if rule.startswith("!")} == copied
    assert all((ROOT / name).exists() for name in copied)


def test_a_dockerfile_is_read_as_an_engine_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "Dockerfile"
    file.write_text(
        "# comment\nFROM a:1 AS b\n\nRUN --mount=type=cache,target=/x \\\n"
        '    # in between\n    one && \\\n    two\nFROM b AS c\nCMD ["x", "y z"]\n'
    )
    stages = read_dockerfile(file)
    assert list(stages) == ["b", "c"]
    assert stages["b"].parent == "a:1"
    (run,) = stages["b"].instructions
    assert (run.name, run.options) == ("RUN", {"mount": "type=cache,target=/x"})
    assert run.words == ["one", "&&", "two"]
    assert stages["c"].last("CMD") == Instruction(name="CMD", options={}, text='["x", "y z"]')
    assert stages["c"].last("CMD").words == ["x", "y z"]
