"""What is said of a span and its values is on the wire as it was said."""

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider

from runtime.telemetry import schema
from runtime.telemetry.encoding import encode_span
from runtime.telemetry.partial import Partial

COUNTS = st.integers(min_value=0, max_value=2**63 - 1)
DOUBLES = st.floats(allow_nan=False)
PARTIALS = st.builds(
    Partial,
    count=st.integers(min_value=0, max_value=2**53),
    sum=DOUBLES,
    min=DOUBLES,
    max=DOUBLES,
    m2=DOUBLES,
    buckets=st.none() | st.lists(COUNTS, min_size=1, max_size=40).map(tuple),
    nonfinite=COUNTS,
)


@given(st.dictionaries(st.text(min_size=1, max_size=200), DOUBLES | PARTIALS, max_size=20))
def test_values_are_attributes_as_the_wire_has_them(values: dict[str, float | Partial]) -> None:
    span = TracerProvider(shutdown_on_exit=False).get_tracer("t").start_span("s", attributes={"last": 1})
    span.end()
    assert isinstance(span, ReadableSpan)
    message = Span.FromString(encode_span(span, values))
    said = [each for name, value in values.items() for each in _key_values(name, value)]
    said.append(KeyValue(key="last", value=AnyValue(int_value=1)))
    assert (message.name, list(message.attributes)) == ("s", said)


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
