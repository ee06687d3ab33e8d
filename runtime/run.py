"""`asyncrl run`: flags, settings, exit codes (0 completed, 1 failed, 2 a mistake, 130 and 143 stopped by a signal)."""

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from runtime.errors import ExporterStartError, RuntimeConfigError

if TYPE_CHECKING:
    from runtime.config import RunConfig


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, like every other mistake."""
        self.exit(2, f"{self.prog}: {message}\n")


def main(argv: Sequence[str]) -> int:
    """Carries out one run; returns the exit code."""
    flags = _parser().parse_args(argv)
    # After the flags: `--help` need not wait for torch.
    import asyncio

    from runtime.config_sources import dump_config, load_config
    from runtime.controller import run

    try:
        overrides = {
            "versions": flags.versions,
            "seed": flags.seed,
            "rollouters": flags.rollouters,
            "model.path": flags.model,
        }
        config = load_config(file=flags.config, assignments=flags.set, flags=overrides)
        if flags.dry_run:
            print(dump_config(config), end="")
            return 0
        _check_environment(config)
        _check_telemetry(config)
        _make(config.folder)
        try:
            return asyncio.run(run(config))
        except (RuntimeConfigError, ExporterStartError):
            # Refused: nothing ran, and the name of the run is free again.
            shutil.rmtree(config.folder, ignore_errors=True)
            raise
    except (RuntimeConfigError, ExporterStartError) as error:
        print(f"asyncrl run: {error}", file=sys.stderr)
        return 2


def _check_environment(config: "RunConfig") -> None:
    """Its class, and whether it draws what the model can read: better said now than by an actor."""
    from runtime.environment import load_environment
    from runtime.tokenizer import SymbolTokenizer
    from runtime.types import Prompt

    environment = load_environment(config.environment, seed=config.seed)
    try:
        prompt = environment.draw()
    # The user's code may raise anything.
    except Exception as error:
        raise RuntimeConfigError(
            f"environment {config.environment!r} could not draw a prompt, {type(error).__name__}: {error}"
        ) from error
    if not isinstance(prompt, Prompt | None):
        raise RuntimeConfigError(
            f"environment {config.environment!r}: draw() must give a Prompt or None, gave {prompt!r}"
        )
    if prompt is not None and not config.model.path:
        SymbolTokenizer().encode(prompt.text + prompt.answer)


def _check_telemetry(config: "RunConfig") -> None:
    """Its files: an actor that could not read them would train to the end, and nobody would hear of it."""
    from runtime.telemetry.credentials import check_credentials

    try:
        check_credentials(config.telemetry)
    except ValueError as error:
        raise RuntimeConfigError(f"telemetry.{error}") from error


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True)
    except FileExistsError as error:
        raise RuntimeConfigError(f"run_id must be a new one, got {folder.name!r}: {folder} exists") from error
    except OSError as error:
        reason = f"got {str(folder.parent)!r}: {error.strerror}"
        raise RuntimeConfigError(f"runs_dir must be a folder to write to, {reason}") from error


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="asyncrl run",
        description="Train a policy with asynchronous GRPO and publish the metrics of every parameter version.",
        epilog="Without arguments: the embedded model learns to sort digits, 80 versions, a few minutes on two cores. "
        "Every setting and what it means: asyncrl run --dry-run. "
        "Exit codes: 0 completed, 1 failed, 2 a mistake in the settings, 130 and 143 stopped by Ctrl-C and SIGTERM.",
    )
    parser.add_argument("--versions", metavar="N", help="parameter versions to publish (default: 80)")
    parser.add_argument("--seed", metavar="N", help="of weights, prompts and sampling (default: 0)")
    parser.add_argument("--rollouters", metavar="N", help="rollouter actors (default: 1)")
    parser.add_argument(
        "--model",
        metavar="DIR",
        help="a Hugging Face causal LM with its tokenizer (default: the embedded model)",
    )
    parser.add_argument("--config", metavar="FILE", type=Path, help="YAML file of settings; the flags win")
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="any setting, dots for sections, e.g. engine.temperature=0.7; may be repeated",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print the resolved settings, explained, and stop"
    )
    return parser
