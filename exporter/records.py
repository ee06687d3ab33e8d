"""What the decoder hands on: spans and points of one OTLP request, names still those of the wire. Plain data."""

from typing import Final, Literal

import msgspec

AttributeValue = str | bool | int | float | tuple["AttributeValue", ...]


NO_COUNT: Final = -1
"""Stands for a count of the resource that is no integer."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Who speaks: one process life, from the resource attributes. Empty or None where the resource says nothing."""

    source_id: str = ""
    role: str = ""
    run: str = ""
    attempt: int | None = None
    schema_version: str = "1"
    service_name: str = ""
    algorithm: str = ""
    model: str = ""
    steps_per_version: int | None = None
    staleness_limit: int | None = None


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """One span as it was sent; times are Unix nanoseconds."""

    source: Source
    name: str
    trace_id: bytes = b""
    span_id: bytes = b""
    start_ns: int
    end_ns: int
    attributes: dict[str, AttributeValue]
    dropped_attributes: int = 0


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One data point of a metric as it was sent; times are Unix nanoseconds."""

    source: Source
    name: str
    kind: Literal["gauge", "sum", "delta", "other"]
    """`delta`: a sum of delta temporality; `other`: a histogram or summary. Both are refused."""
    value: float
    time_ns: int
    start_ns: int = 0
    attributes: dict[str, AttributeValue]


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """One request. A record that could not be decoded at all is a reason in `malformed`, and costs no other."""

    spans: tuple[Span, ...] = ()
    points: tuple[Point, ...] = ()
    malformed: tuple[str, ...] = ()


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What the ledger said to one request: how many records it refused or found late, and the first reason."""

    rejected: int = 0
    reason: str = ""
    run: str = ""
    """The run of the first one, as its sender names it."""
