"""The console script `asyncrl`: finds the command's room and loads only that.

`asyncrl exporter` imports neither torch nor ray, and needs no extra to be installed.
"""

import importlib
import sys
from typing import Final, NamedTuple


class Command(NamedTuple):
    module: str
    """Holds `main(argv) -> exit code`."""
    extra: str
    """The extra that installs what it imports; empty: a plain install suffices."""
    help: str


COMMANDS: Final = {
    "run": Command(
        "runtime.run", "runtime", "train asynchronously, with every version's metrics on /metrics"
    ),
    "exporter": Command("exporter.cli", "", "receive telemetry and publish it"),
    "history": Command("exporter.commands.history", "parquet", "list runs and versions, or export them"),
    "end": Command("exporter.commands.end", "", "end a run by hand"),
    "doctor": Command("exporter.commands.doctor", "", "find out what is wrong with an exporter"),
}
ROOMS: Final = ("runtime", "exporter", "dashboards")


def usage() -> str:
    commands = "\n".join(f"  {name:10}{command.help}" for name, command in COMMANDS.items())
    return f"usage: asyncrl COMMAND [ARGUMENTS]\n\n{commands}\n\nasyncrl COMMAND --help tells more; asyncrl --version"


def main(argv: list[str] | None = None) -> int:
    """Runs the command that `argv`, by default the command line, names; returns its exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    name, rest = (arguments[0], arguments[1:]) if arguments else ("--help", [])
    if name in ("-h", "--help"):
        print(usage())
        return 0
    if name == "--version":
        from importlib import metadata  # slow, for what few ask

        print(f"asyncrl {metadata.version('asyncrl-exporter')}")
        return 0
    if name not in COMMANDS:
        print(f"asyncrl: no command {name!r}; there are {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    command = COMMANDS[name]
    try:
        code: int = importlib.import_module(command.module).main(rest)
    except KeyboardInterrupt:
        # Later a run listens to the signal itself; this one came while it was being loaded.
        print(f"asyncrl {name}: interrupted", file=sys.stderr)
        return 130
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in ROOMS or not command.extra:
            raise
        print(
            f"asyncrl {name}: {missing} is not installed; pip install 'asyncrl-exporter[{command.extra}]'",
            file=sys.stderr,
        )
        return 2
    return code


if __name__ == "__main__":
    sys.exit(main())
