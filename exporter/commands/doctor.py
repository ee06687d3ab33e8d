"""`asyncrl doctor`: tries what an exporter has to do, and says in words what is wrong. Exit code 1 if anything is."""

import argparse
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from exporter import catalog
from exporter.commands.connection import Connection, add_flags
from exporter.commands.data_directory import examine
from exporter.commands.finding import Finding
from exporter.errors import ExporterError, Unreachable
from runtime.telemetry import schema

_POLL_SECONDS = 0.25
_LARGEST_OFFSET_SECONDS = 2.0


class _Trip(NamedTuple):
    seconds: float
    offset_seconds: float
    """The exporter's clock minus ours, transport included."""


def main(argv: Sequence[str]) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="asyncrl doctor",
        description="Check the addresses, clocks and storage of an exporter, and send it a probe that goes through its "
        "journal and leaves nothing behind.",
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
        type=_seconds,
        default=20.0,
        help="how long the exporter may take to tell of the probe (default: %(default)s)",
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


def _seconds(text: str) -> float:
    """Of `--wait`."""
    seconds = float(text)
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"must be seconds, 0 or more; got {text}")
    return seconds


def _examine(connection: Connection, data_dir: Path | None, wait_seconds: float) -> Iterator[Finding]:
    addresses = [_scrape_address(connection), _otlp_address(connection)]
    yield from addresses
    if data_dir is not None:
        yield from examine(data_dir)
    if not all(finding.good for finding in addresses):
        return
    try:
        trip = _round_trip(connection, wait_seconds)
        page = connection.get("/metrics").text
    except Unreachable as error:
        yield Finding(False, f"round trip: {error}")
        return
    yield Finding(
        True,
        f"a probe went through the journal and was seen at {connection.url} {trip.seconds:.2f} s later; "
        "it leaves nothing behind",
    )
    yield _clocks(trip)
    yield from _clocks_of_sources(page)


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


def _round_trip(connection: Connection, wait_seconds: float) -> _Trip:
    """Raises Unreachable."""
    trace_id, sent_at, started = os.urandom(16), time.time(), time.monotonic()
    connection.post_spans(_probe(trace_id))
    while True:
        for probe in connection.get("/api/v1/runs").json().get("last_probes", []):
            if probe["trace_id"] == trace_id.hex():
                return _Trip(time.monotonic() - started, probe["arrived_at"] - sent_at)
        if time.monotonic() - started > wait_seconds:
            raise Unreachable(
                f"{connection.otlp_url} took a probe of which {connection.url} does not tell {wait_seconds:g} s "
                "later; do both belong to one exporter, and is it of this version?"
            )
        time.sleep(_POLL_SECONDS)


def _probe(trace_id: bytes) -> bytes:
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(name=schema.PROBE, trace_id=trace_id)
    span.span_id = os.urandom(8)
    span.start_time_unix_nano = span.end_time_unix_nano = time.time_ns()
    return request.SerializeToString()


def _clocks_of_sources(page: str) -> Iterator[Finding]:
    """Of each source whose newest record does not fit the exporter's clock."""
    for line in page.split("\n"):
        family, _, rest = line.partition("{")
        labels, _, value = rest.rpartition("} ")
        if family == catalog.SOURCE_CLOCK_OFFSET.name and abs(float(value)) > _LARGEST_OFFSET_SECONDS:
            yield Finding(
                False,
                f"the newest record of {labels} was {float(value):+.1f} s old when it came: "
                "its clock is wrong, or its telemetry late",
            )


def _clocks(trip: _Trip) -> Finding:
    if abs(trip.offset_seconds) > _LARGEST_OFFSET_SECONDS:
        return Finding(
            False,
            f"the exporter's clock is {trip.offset_seconds:+.1f} s from this machine's; versions have the time of "
            "their trainer, so that history, push and scrapes will not agree: run NTP on both",
        )
    return Finding(True, f"the exporter's clock is {trip.offset_seconds:+.3f} s from this machine's")
