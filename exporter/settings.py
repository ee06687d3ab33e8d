"""Where the settings come from: the defaults, a YAML file, the environment, flags. A later one wins over an earlier.

grace_seconds: 15   <   grace_seconds: 20 in --config FILE   <   ASYNCRL_GRACE_SECONDS=25   <   --grace 30
"""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from exporter.config import ExporterConfig
from exporter.errors import ConfigError
from exporter.yaml_file import meant, read_yaml

ENVIRONMENT_PREFIX: Final = "ASYNCRL_"
CONFIG_VARIABLE: Final = ENVIRONMENT_PREFIX + "CONFIG"
"""Names the configuration file where no flag does."""
SETTINGS: Final = {setting.name: setting.type for setting in dataclasses.fields(ExporterConfig)}
"""The keys of a configuration file, with their types."""
_WORDS: Final = {"true": True, "false": False}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """The resolved settings, and for each that is not the default where it was said."""

    config: ExporterConfig
    origins: Mapping[str, str]

    def describe(self) -> str:
        """All settings as a configuration file, each with its origin in a comment."""
        shown = {name: _plain(getattr(self.config, name)) for name in SETTINGS}
        lines = [f"{name}: {json.dumps(value)}" for name, value in shown.items()]
        width = max(len(line) for line in lines)
        origins = (self.origins.get(name, "default") for name in SETTINGS)
        return "".join(f"{line:{width}}  # {origin}\n" for line, origin in zip(lines, origins, strict=True))


def load_settings(path: Path | None, environment: Mapping[str, str], flags: Mapping[str, Any]) -> Settings:
    """`path` and `flags` are what the command line said; `flags` names fields of ExporterConfig. Raises ConfigError."""
    path = path or _as_path(CONFIG_VARIABLE, environment.get(CONFIG_VARIABLE))
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    said = _read_environment(environment)
    for origin, layer in ((f"{path}", _read_file(path) if path else {}), ("", said), ("flag", flags)):
        values |= layer
        origins |= {name: origin or ENVIRONMENT_PREFIX + name.upper() for name in layer}
    try:
        config = ExporterConfig(**values)
    except ConfigError as error:
        wrong = str(error).partition(" ")[0]
        raise ConfigError(f"{error} (from {origins[wrong]})" if wrong in origins else str(error)) from error
    return Settings(config=config, origins=origins)


def _read_file(path: Path) -> dict[str, Any]:
    content = read_yaml(path, "configuration file")
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must be a mapping of setting to value, got {type(content).__name__}")
    for key in content:
        if key not in SETTINGS:
            hint = meant(key, SETTINGS)
            raise ConfigError(f"{path}: unknown setting {key!r}; {hint}known are {', '.join(SETTINGS)}")
    return {key: _as_path(key, value) if _is_path(key) else value for key, value in content.items()}


def _read_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """Variables of other names are left alone: Kubernetes sets ASYNCRL_... ones of its own beside a service."""
    said = {name: environment.get(ENVIRONMENT_PREFIX + name.upper()) for name in SETTINGS}
    return {
        name: _as_path(name, text) if _is_path(name) else _as_typed(SETTINGS[name], text)
        for name, text in said.items()
        if text is not None
    }


def _as_typed(kind: Any, text: str) -> Any:
    """The text as a number or a truth value where the setting is one; the config refuses what cannot be."""
    if kind is bool:
        return _WORDS.get(text.lower(), text)
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            return text
    return text


def _is_path(name: str) -> bool:
    return SETTINGS[name] in (Path, Path | None)


def _as_path(name: str, value: Any) -> Path | None:
    if value is None and (name == CONFIG_VARIABLE or SETTINGS[name] == Path | None):
        return None
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{name} must be a path, got {value!r}")
    return Path(value)


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value
