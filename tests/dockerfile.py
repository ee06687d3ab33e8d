"""Reads a Dockerfile: its stages, and the instructions of each as data. Understood is what ours uses."""

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from string import Template


@dataclass(frozen=True, kw_only=True, slots=True)
class Instruction:
    """`options` are the --name=value before the arguments; `text` is all after them."""

    name: str
    options: dict[str, str]
    text: str

    @property
    def words(self) -> list[str]:
        """The arguments: of the JSON form, or as a shell splits them."""
        if self.text.startswith("["):
            parsed: list[str] = json.loads(self.text)
            return parsed
        return shlex.split(self.text)


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """`FROM parent AS name` and what follows."""

    name: str
    parent: str
    instructions: tuple[Instruction, ...]

    def of(self, name: str) -> Iterator[Instruction]:
        return (instruction for instruction in self.instructions if instruction.name == name)

    def last(self, name: str) -> Instruction:
        return list(self.of(name))[-1]


def read_dockerfile(path: Path) -> dict[str, Stage]:
    """The stages by name, in their order."""
    stages: dict[str, Stage] = {}
    current: list[Instruction] = []
    for instruction in _instructions(path.read_text(encoding="utf-8")):
        if instruction.name == "FROM":
            parent, _, name = instruction.words
            if current:
                _add(stages, current)
            current = [Instruction(name="FROM", options={}, text=f"{parent} {name}")]
        else:
            current.append(instruction)
    _add(stages, current)
    return stages


def substitute(text: str, variables: dict[str, str]) -> str:
    """`$NAME` and `${NAME}` of the variables that are known."""
    return Template(text).safe_substitute(variables)


def _add(stages: dict[str, Stage], instructions: list[Instruction]) -> None:
    parent, name = instructions[0].words
    stages[name] = Stage(name=name, parent=parent, instructions=tuple(instructions[1:]))


def _instructions(content: str) -> Iterator[Instruction]:
    lines = [line for line in content.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    for logical in re.sub(r"\\\n", " ", "\n".join(lines)).splitlines():
        name, _, rest = logical.strip().partition(" ")
        options: dict[str, str] = {}
        while option := re.match(r"--([a-z-]+)=(\S+)\s+", rest := rest.lstrip()):
            options[option[1]] = option[2]
            rest = rest[option.end() :]
        yield Instruction(name=name, options=options, text=rest)
