"""A file of settings in YAML. A key that stands twice is a mistake: YAML's own readers take the last one silently."""

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from exporter.errors import ConfigError


def read_yaml(path: Path, what: str) -> Any:
    """The content. Raises ConfigError, in which `what` names the kind of file."""
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"cannot read the {what} {path}: {' '.join(str(error).split())}") from error


def meant(key: object, known: Iterable[str]) -> str:
    """A question for whoever misspelt a key of a file; empty where no key that is known is like it."""
    alike = get_close_matches(str(key), list(known), n=1)
    return f"is {alike[0]} meant? " if alike else ""


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key!r} stands there twice", node.start_mark
                )
        return super().construct_mapping(node, deep)
