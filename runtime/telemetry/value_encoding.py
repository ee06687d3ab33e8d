"""The values of a control span as bytes of its `attributes`, which go before those of the span that the SDK encodes.

A step says sixty values or more, and the SDK checks, copies and wraps each of them while the trainer waits. The wire:

    Span.attributes = 9: KeyValue {key = 1, value = 2: AnyValue {int_value = 3, double_value = 4, array_value = 5}}
"""

import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from runtime.telemetry import schema
from runtime.telemetry.partial import Partial

_DOUBLE: Final = b"\x21"
"""Tag of AnyValue.double_value, 8 bytes follow."""
_ITEM: Final = b"\x0a\x09" + _DOUBLE
"""Of ArrayValue.values, an AnyValue of a double."""
_SCALAR: Final = struct.Struct("<d")
_PARTIAL: Final = struct.Struct("<" + "3sd" * 5)


def encode_values(values: Mapping[str, float | Partial]) -> bytes:
    """The attributes of all values, by metric name; of a Partial its parts, its buckets and what was not finite."""
    parts: list[bytes] = []
    for name, value in values.items():
        if isinstance(value, Partial):
            parts += _encode_partial(name, value)
        else:
            parts += _head(schema.METRIC_PREFIX + name, _DOUBLE, 8), _SCALAR.pack(float(value))
    return b"".join(parts)


def _encode_partial(name: str, value: Partial) -> list[bytes]:
    count, total, low, high, m2 = (
        float(part) for part in (value.count, value.sum, value.min, value.max, value.m2)
    )
    body = _PARTIAL.pack(_ITEM, count, _ITEM, total, _ITEM, low, _ITEM, high, _ITEM, m2)
    parts = [_head(schema.METRIC_PREFIX + name, _array(len(body)), len(body)), body]
    if value.buckets is not None:
        body = b"".join(map(_item, value.buckets))
        parts += _head(schema.BUCKETS_PREFIX + name, _array(len(body)), len(body)), body
    if value.nonfinite:
        body = _integer(value.nonfinite)
        parts += _head(schema.NONFINITE_PREFIX + name, b"", len(body)), body
    return parts


@lru_cache(maxsize=4096)
def _head(key: str, tag: bytes, size: int) -> bytes:
    """All of an attribute that comes before the `size` bytes of its value's content; the same in every step."""
    name = key.encode()
    value = b"\x12" + _varint(len(tag) + size) + tag
    pair = b"\x0a" + _varint(len(name)) + name + value
    return b"\x4a" + _varint(len(pair) + size) + pair


def _array(size: int) -> bytes:
    return b"\x2a" + _varint(size)


@lru_cache(maxsize=4096)
def _item(count: int) -> bytes:
    body = _integer(count)
    return b"\x0a" + _varint(len(body)) + body


def _integer(count: int) -> bytes:
    return b"\x18" + _varint(count)


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
