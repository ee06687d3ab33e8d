"""What the policy is trained on: an environment draws prompts and scores responses."""

import importlib
import os
import sys
from typing import Protocol, cast

from runtime.errors import RuntimeConfigError
from runtime.types import Prompt, Score


class Environment(Protocol):
    """A source of prompts with its scorer. Classes are called as `Class(seed=seed)`."""

    def draw(self) -> Prompt | None:
        """The next prompt, or None for ever after when the data has ended."""

    def score(self, prompt: Prompt, response_text: str) -> Score:
        """Reward and exact match of one response, its special tokens already removed."""


def load_environment(spec: str, *, seed: int) -> Environment:
    """Import `module:Class` and build it with `seed`.

    The working directory is appended to `sys.path`, never prepended: a user's folder named like an installed
    package must not replace it. Raises RuntimeConfigError if there is no such class,
    if it cannot be made, or if it is no environment.
    """
    module_name, _, class_name = spec.partition(":")
    if not module_name or not class_name:
        raise RuntimeConfigError(f'environment must be "module:Class", got {spec!r}')
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise RuntimeConfigError(
            f"environment {spec!r}: {error}; run from the folder that holds the module, or install it"
        ) from error
    factory = getattr(module, class_name, None)
    if not callable(factory):
        raise RuntimeConfigError(f"environment {spec!r}: module {module_name!r} has no class {class_name!r}")
    try:
        environment = factory(seed=seed)
    # The user's code may raise anything.
    except Exception as error:
        raise RuntimeConfigError(
            f"environment {spec!r} could not be made, {type(error).__name__}: {error}"
        ) from error
    missing = [name for name in ("draw", "score") if not callable(getattr(environment, name, None))]
    if missing:
        raise RuntimeConfigError(
            f"environment {spec!r} must have the methods draw() and score(), has no {' and no '.join(missing)}"
        )
    return cast(Environment, environment)
