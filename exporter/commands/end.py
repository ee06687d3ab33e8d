"""`asyncrl end RUN`: says what a dead trainer cannot, as a controller would: the run is over."""

import argparse
import os
import sys
import time
import uuid
from collections.abc import Mapping, Sequence

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from exporter.commands.connection import Connection, add_flags
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
    answer = connection.post_spans(_run_end(name, run["attempt"], version).SerializeToString())
    refused = ExportTraceServiceResponse.FromString(answer.content).partial_success
    if refused.rejected_spans:
        raise Unreachable(f"{connection.otlp_url} refused the record: {refused.error_message}")
    deadline = time.monotonic() + _WAIT_SECONDS
    while not any(run["run"] == name and run["status"] == schema.STOPPED for run in history.runs()):
        if time.monotonic() > deadline:
            raise Unreachable(
                f"{connection.otlp_url} took the end of {name!r}, but {connection.url} does not show it; "
                "do both belong to one exporter?"
            )
        time.sleep(_POLL_SECONDS)
    return version


def _run_end(run: str, attempt: int, version: int) -> ExportTraceServiceRequest:
    """The run's end as the only record of a new source."""
    source: dict[str, str | int] = {
        schema.SOURCE_ID: f"asyncrl-{uuid.uuid4()}",
        schema.ROLE: schema.CONTROLLER,
        schema.RUN_ID: run,
        schema.ATTEMPT: attempt,
    }
    said: dict[str, str | int] = {schema.STATUS: schema.STOPPED, schema.SEQ: 1, schema.PARAM_VERSION: version}
    request, now_ns = ExportTraceServiceRequest(), time.time_ns()
    resource_spans = request.resource_spans.add(resource=Resource(attributes=_key_values(source)))
    resource_spans.scope_spans.add().spans.add(
        name=schema.RUN_END,
        trace_id=os.urandom(16),
        span_id=os.urandom(8),
        start_time_unix_nano=now_ns,
        end_time_unix_nano=now_ns,
        attributes=_key_values(said),
    )
    return request


def _key_values(attributes: Mapping[str, str | int]) -> list[KeyValue]:
    return [
        KeyValue(
            key=name,
            value=AnyValue(int_value=value) if isinstance(value, int) else AnyValue(string_value=value),
        )
        for name, value in attributes.items()
    ]
