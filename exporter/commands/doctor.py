"""`asyncrl doctor`: tries what an exporter has to do, and says in words what is wrong. Exit code 1 if anything is."""

import argparse
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from exporter import catalog
from exporter.commands.connection import Connection, add_flags
from exporter.commands.data_directory import examine
from exporter.commands.finding import Finding
from exporter.commands.sender import Sender
from exporter.errors import ExporterError, Unreachable
from runtime.telemetry import schema

_POLL_SECONDS = 0.05
_LARGEST_OFFSET_SECONDS = 2.0
_LOSS = 2.5


class _Trip(NamedTuple):
    seconds: float
    offset_seconds: float | None
    """The exporter's clock minus ours, transport included."""


def main(argv: Sequence[str]) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="asyncrl doctor",
        description="Check the addresses, clocks and storage of an exporter, and send it the record of a throw-away "
        "run until it is on /metrics.",
    )
    parser.add_argument(
        "--data-dir",
        metavar="DIR",
        type=Path,
        help="check this folder, too: that of an exporter on this machine",
    )
    parser.add_argument(
        "--wait",
        metavar="SECONDS",
        type=float,
        default=20.0,
        help="how long its record may take to be on /metrics (default: %(default)s)",
    )
    add_flags(parser)
    flags = parser.parse_args(argv)
    try:
        connection = Connection.from_flags(flags)
    except ExporterError as error:
        print(f"asyncrl doctor: {error}", file=sys.stderr)
        return 2
    good = True
    for finding in _examine(connection, flags.data_dir, flags.wait):
        good &= finding.good
        print(f"{'ok   ' if finding.good else 'WRONG'}  {finding.text}", flush=True)
    return 0 if good else 1


def _examine(connection: Connection, data_dir: Path | None, wait_seconds: float) -> Iterator[Finding]:
    addresses = [_scrape_address(connection), _otlp_address(connection)]
    yield from addresses
    if data_dir is not None:
        yield from examine(data_dir)
    if not all(finding.good for finding in addresses):
        return
    run = f"asyncrl-doctor-{uuid.uuid4().hex[:8]}"
    try:
        trip = _round_trip(connection, run, wait_seconds)
    except Unreachable as error:
        yield Finding(False, f"round trip: {error}")
        return
    yield Finding(True, f"a record was on {connection.url}/metrics {trip.seconds:.2f} s after it was sent")
    yield _clocks(trip)
    yield from _clocks_of_sources(connection, but=run)
    yield Finding(True, f"the throw-away run {run} is completed; it leaves the page as any ended run does")


def _scrape_address(connection: Connection) -> Finding:
    try:
        connection.get("/healthz")
    except Unreachable as error:
        return Finding(False, str(error))
    try:
        connection.get("/readyz")
    except Unreachable as error:
        return Finding(False, f"the exporter is not ready, its log says why: {error}")
    return Finding(True, f"{connection.url} answers and is ready: its journal takes what comes")


def _otlp_address(connection: Connection) -> Finding:
    try:
        connection.post_spans(b"")  # a request without a span
    except Unreachable as error:
        return Finding(False, str(error))
    return Finding(True, f"{connection.otlp_url} takes telemetry")


def _round_trip(connection: Connection, run: str, wait_seconds: float) -> _Trip:
    """Raises Unreachable."""
    sender = Sender(connection, run=run, role=schema.TRAINER)
    started = time.monotonic()
    sender.say(
        (schema.TRAIN_STEP, 1, {schema.STEP: 1, f"{schema.METRIC_PREFIX}policy_loss": _LOSS}),
        (schema.WEIGHT_SYNC, 1, {schema.STEPS_IN_WINDOW: 1, schema.ROLLOUTERS: ()}),
    )
    try:
        shown = _await_loss(connection, run, wait_seconds)
        seconds = time.monotonic() - started
    finally:  # else it would be `running` for a day, and `lost` then
        sender.say((schema.RUN_END, 1, {schema.STATUS: schema.COMPLETED}))
    return _Trip(seconds, shown.get(catalog.SOURCE_CLOCK_OFFSET.name))


def _await_loss(connection: Connection, run: str, wait_seconds: float) -> dict[str, float]:
    """What the page says of the run once its loss is there. Raises Unreachable."""
    loss, deadline = catalog.METRIC_FAMILIES["policy_loss"][0].name, time.monotonic() + wait_seconds
    while (shown := _values(connection, run)).get(loss) != _LOSS:
        if time.monotonic() > deadline:
            raise Unreachable(
                f"{connection.otlp_url} took a record that is not on {connection.url}/metrics {wait_seconds:g} s "
                "later; do both belong to one exporter?"
            )
        time.sleep(_POLL_SECONDS)
    return shown


def _values(connection: Connection, run: str) -> dict[str, float]:
    """Family -> value, of the series of the run."""
    lines = connection.get("/metrics").text.split("\n")
    samples = [line.rsplit(" ", 1) for line in lines if f'run="{run}"' in line]
    return {series.partition("{")[0]: float(value) for series, value in samples}


def _clocks_of_sources(connection: Connection, *, but: str) -> Iterator[Finding]:
    """Of each source whose newest record does not fit the exporter's clock."""
    for line in connection.get("/metrics").text.split("\n"):
        family, _, rest = line.partition("{")
        labels, _, value = rest.rpartition("} ")
        if family != catalog.SOURCE_CLOCK_OFFSET.name or f'run="{but}"' in labels:
            continue
        if abs(float(value)) > _LARGEST_OFFSET_SECONDS:
            yield Finding(
                False,
                f"the newest record of {labels} was {float(value):+.1f} s old when it came: "
                "its clock is wrong, or its telemetry late",
            )


def _clocks(trip: _Trip) -> Finding:
    if trip.offset_seconds is None:
        return Finding(False, "the exporter does not say how its clock differs; is it of this version?")
    if abs(trip.offset_seconds) > _LARGEST_OFFSET_SECONDS:
        return Finding(
            False,
            f"the exporter's clock is {trip.offset_seconds:+.1f} s from this machine's; versions have the time of "
            "their trainer, so that history, push and scrapes will not agree: run NTP on both",
        )
    return Finding(True, f"the exporter's clock is {trip.offset_seconds:+.3f} s from this machine's")
