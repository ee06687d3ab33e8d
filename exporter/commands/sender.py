"""Speaks for one source, as any trainer does: control spans over OTLP/HTTP."""

import os
import time
import uuid
from collections.abc import Mapping, Sequence

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from exporter.commands.connection import Connection
from exporter.errors import Unreachable
from runtime.telemetry import schema

Value = str | int | float | Sequence[str]


class Sender:
    """A new source of `run`. Raises Unreachable where the exporter does not take what it says."""

    def __init__(self, connection: Connection, *, run: str, role: str, attempt: int = 1) -> None:
        self._connection = connection
        self._seq = 0
        identity: dict[str, Value] = {
            schema.SOURCE_ID: f"asyncrl-{uuid.uuid4()}",
            schema.ROLE: role,
            schema.RUN_ID: run,
            schema.ATTEMPT: attempt,
        }
        self._resource = Resource(attributes=_key_values(identity))

    def say(self, *records: tuple[str, int, Mapping[str, Value]]) -> None:
        """Each record is a span's name, its param_version and its attributes; on return it is in the journal."""
        request = ExportTraceServiceRequest()
        spans = request.resource_spans.add(resource=self._resource).scope_spans.add().spans
        for name, version, attributes in records:
            self._seq += 1
            now_ns = time.time_ns()
            said = {**attributes, schema.SEQ: self._seq, schema.PARAM_VERSION: version}
            spans.add(
                name=name,
                trace_id=os.urandom(16),
                span_id=os.urandom(8),
                start_time_unix_nano=now_ns,
                end_time_unix_nano=now_ns,
                attributes=_key_values(said),
            )
        answer = self._connection.post_spans(request.SerializeToString())
        refused = ExportTraceServiceResponse.FromString(answer.content).partial_success
        if refused.rejected_spans:
            raise Unreachable(f"{self._connection.otlp_url} refused the record: {refused.error_message}")


def _key_values(attributes: Mapping[str, Value]) -> list[KeyValue]:
    return [KeyValue(key=name, value=_any_value(value)) for name, value in attributes.items()]


def _any_value(value: Value) -> AnyValue:
    match value:
        case str():
            return AnyValue(string_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case _:
            return AnyValue(array_value=ArrayValue(values=[_any_value(item) for item in value]))
