"""`asyncrl end RUN`: says what a dead trainer cannot, as a controller would: the run is over."""

import argparse
import sys
import time
from collections.abc import Sequence

from exporter.commands.connection import Connection, add_flags
from exporter.commands.sender import Sender
from exporter.commands.source import ServedHistory, unknown_run
from exporter.errors import ConfigError, ExporterError, Unreachable
from runtime.telemetry import schema

_WAIT_SECONDS = 10.0
_POLL_SECONDS = 0.1


def main(argv: Sequence[str]) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="asyncrl end",
        description="End a run by hand: its status becomes `stopped`, and what is open of it is sealed.",
    )
    parser.add_argument("run", metavar="RUN", help="the run, as `asyncrl history` lists it")
    add_flags(parser)
    flags = parser.parse_args(argv)
    try:
        version = end_run(Connection.from_flags(flags), flags.run)
    except ExporterError as error:
        print(f"asyncrl end: {error}", file=sys.stderr)
        return 2
    print(f"run {flags.run!r} is stopped; its newest version is {version}")
    return 0


def end_run(connection: Connection, name: str) -> int:
    """The newest published version of the run, which is over on return. Raises ExporterError."""
    history = ServedHistory(connection)
    runs = {run["run"]: run for run in history.runs()}
    if name not in runs:
        raise unknown_run(name, runs)
    run = runs[name]
    if run["status"] in schema.END_STATUSES:
        raise ConfigError(f"run {name!r} is {run['status']} already")
    version: int = run["param_version"] or 0
    sender = Sender(connection, run=name, role=schema.CONTROLLER, attempt=run["attempt"])
    sender.say((schema.RUN_END, version, {schema.STATUS: schema.STOPPED}))
    deadline = time.monotonic() + _WAIT_SECONDS
    while not any(run["run"] == name and run["status"] == schema.STOPPED for run in history.runs()):
        if time.monotonic() > deadline:
            raise Unreachable(
                f"{connection.otlp_url} took the end of {name!r}, but {connection.url} does not show it; "
                "do both belong to one exporter?"
            )
        time.sleep(_POLL_SECONDS)
    return version
