"""Values written as bytes are the attributes that OpenTelemetry's own encoder writes."""

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from runtime.telemetry import schema
from runtime.telemetry.partial import Partial
from runtime.telemetry.value_encoding import encode_values

COUNTS = st.integers(min_value=0, max_value=2**63 - 1)
DOUBLES = st.floats(allow_nan=False)
PARTIALS = st.builds(
    Partial,
    count=st.integers(min_value=0, max_value=2**53),
    sum=DOUBLES,
    min=DOUBLES,
    max=DOUBLES,
    m2=DOUBLES,
    buckets=st.none() | st.lists(COUNTS, max_size=40).map(tuple),
    nonfinite=COUNTS,
)


@given(st.dictionaries(st.text(min_size=1, max_size=200), DOUBLES | PARTIALS, max_size=20))
def test_values_written_as_bytes_are_those_of_the_protobuf_classes(
    values: dict[str, float | Partial],
) -> None:
    span = Span(attributes=[KeyValue(key="first", value=AnyValue(int_value=1))])
    written = Span.FromString(span.SerializeToString() + encode_values(values))
    for name, value in values.items():
        span.attributes.extend(_key_values(name, value))
    assert written == span


def _key_values(name: str, value: float | Partial) -> list[KeyValue]:
    if not isinstance(value, Partial):
        return [KeyValue(key=schema.METRIC_PREFIX + name, value=AnyValue(double_value=value))]
    parts = (value.count, value.sum, value.min, value.max, value.m2)
    array = ArrayValue(values=[AnyValue(double_value=part) for part in parts])
    said = [KeyValue(key=schema.METRIC_PREFIX + name, value=AnyValue(array_value=array))]
    if value.buckets is not None:
        array = ArrayValue(values=[AnyValue(int_value=count) for count in value.buckets])
        said.append(KeyValue(key=schema.BUCKETS_PREFIX + name, value=AnyValue(array_value=array)))
    if value.nonfinite:
        said.append(KeyValue(key=schema.NONFINITE_PREFIX + name, value=AnyValue(int_value=value.nonfinite)))
    return said
