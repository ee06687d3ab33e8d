"""Where the settings of a run come from: defaults, then a YAML file, then `--set key=value`, then flags.

Nested settings are written as sections in YAML and with dots on the command line: `--set engine.temperature=0.7`.
"""

import dataclasses
import inspect
import time
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from textwrap import fill, indent
from typing import Any
from uuid import uuid4

import msgspec
import yaml

from runtime.config import RunConfig
from runtime.errors import RuntimeConfigError
from runtime.setting_docs import field_docs


def load_config(
    *,
    file: Path | None = None,
    assignments: Sequence[str] = (),
    flags: Mapping[str, str | None] | None = None,
) -> RunConfig:
    """The settings of `file`, overridden by `assignments` ("dotted.key=value"), overridden by `flags`.

    Raises RuntimeConfigError, whose one line names the key, the value and what is accepted.
    """
    settings = _read_yaml(file) if file else {}
    given = [_assignment(text) for text in assignments]
    given += [(key, value) for key, value in (flags or {}).items() if value is not None]
    for key, value in given:
        _assign(settings, key, value)
    for path, known in _unknown_keys(settings, RunConfig):
        close = get_close_matches(path.rpartition(".")[2], known, n=1)
        hint = f"did you mean {close[0]}? Known" if close else "known"
        raise RuntimeConfigError(f"{path} is not a setting; {hint} here are {', '.join(known)}")
    settings.setdefault("run_id", time.strftime("%Y%m%d-%H%M%S-") + uuid4().hex[:4])
    config = _convert(settings)
    if "total_steps" not in settings.get("optimizer", {}):
        # The learning rate's decay ends with the run unless it is told otherwise.
        steps = config.versions * config.steps_per_version
        optimizer = dataclasses.replace(config.optimizer, total_steps=steps)
        config = dataclasses.replace(config, optimizer=optimizer)
    return config


def dump_config(config: RunConfig) -> str:
    """The fully resolved settings as YAML, each explained, that `load_config` reads back to an equal record."""
    return "".join(_explained(config))


def _explained(record: Any) -> Iterator[str]:
    docs = field_docs(type(record))
    for entry in dataclasses.fields(record):
        value = getattr(record, entry.name)
        is_section = dataclasses.is_dataclass(value)
        told = [inspect.getdoc(type(value)) or ""] if is_section else []
        if comment := " ".join(" ".join([*told, docs.get(entry.name, "")]).split()):
            yield fill(comment, 100, initial_indent="# ", subsequent_indent="# ") + "\n"
        if is_section:
            yield f"{entry.name}:\n" + indent("".join(_explained(value)), "  ")
        else:
            yield yaml.safe_dump({entry.name: msgspec.to_builtins(value)}, width=1000)


def _read_yaml(file: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise RuntimeConfigError(
            f"--config must be a readable YAML file, got {str(file)!r}: {reason}"
        ) from error
    if not isinstance(content, dict | None):
        raise RuntimeConfigError(
            f"--config must hold a mapping of setting to value, got {type(content).__name__}"
        )
    return content or {}


def _assignment(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise RuntimeConfigError(f"--set must be key=value, got {text!r}")
    try:
        parsed = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise RuntimeConfigError(f"{key} must be a YAML value, got {value!r}") from error
    # Scalars stay text: their field decides what `1e-3` or `007` is.
    return key, parsed if isinstance(parsed, list | dict) else value


def _assign(settings: dict[str, Any], key: str, value: Any) -> None:
    *sections, name = key.split(".")
    for section in sections:
        settings = settings.setdefault(section, {})
        if not isinstance(settings, dict):
            raise RuntimeConfigError(f"{key} is not a setting; {section} is a single value")
    settings[name] = value


def _unknown_keys(
    settings: Mapping[str, Any], record: type, prefix: str = ""
) -> Iterator[tuple[str, list[str]]]:
    fields = {entry.name: entry for entry in dataclasses.fields(record)}
    for key, value in settings.items():
        if key not in fields:
            yield f"{prefix}{key}", list(fields)
        elif dataclasses.is_dataclass(kind := fields[key].type) and isinstance(value, dict):
            assert isinstance(kind, type)
            yield from _unknown_keys(value, kind, f"{key}.")


def _convert(settings: dict[str, Any]) -> RunConfig:
    try:
        return msgspec.convert(settings, RunConfig, strict=False)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$")
        path = path.strip("`").removeprefix(".")
        if isinstance(error.__cause__, ValueError):
            # The record itself refused; its message starts with its own key.
            raise RuntimeConfigError(f"{path}.{reason}" if path else reason) from error
        value: Any = settings
        for key in path.split("[")[0].split("."):
            value = value[key]
        accepted = reason.partition("`")[2].partition("`")[0]
        noun = "a list of two numbers" if "of length 2" in reason else _NOUNS.get(accepted, accepted)
        raise RuntimeConfigError(f"{path} must be {noun}, got {value!r}") from error


_NOUNS = {
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "str": "a text",
    "array": "a list",
    "object": "a section of settings",
}
