from hypothesis import given
from hypothesis import strategies as st

from runtime.telemetry.span_buffer import EncodedSpan, Kind, SpanBuffer


def span(kind: Kind, name: str) -> EncodedSpan:
    return EncodedSpan(kind, name.encode())


def take(buffer: SpanBuffer) -> list[str]:
    return [encoded.data.decode() for encoded in buffer.take(max_spans=1000, max_bytes=10**9)]


def test_detail_is_given_up_before_control_and_old_before_new() -> None:
    buffer = SpanBuffer(max_spans=3, max_bytes=1000)
    for kind, name in (("control", "c1"), ("detail", "d1"), ("detail", "d2"), ("control", "c2")):
        buffer.add(span("control" if kind == "control" else "detail", name))
    assert buffer.dropped == {"control": 0, "detail": 1}
    buffer.add(span("control", "c3"))
    buffer.add(span("control", "c4"))
    assert buffer.dropped == {"control": 1, "detail": 2}
    buffer.add(span("detail", "d3"))
    assert take(buffer) == ["c2", "c3", "c4"]


def test_bytes_bound_too_and_a_span_too_big_pushes_out_nothing() -> None:
    buffer = SpanBuffer(max_spans=100, max_bytes=5)
    buffer.add(span("control", "aaa"))
    buffer.add(span("control", "way too big"))
    buffer.add(span("control", "bb"))
    assert take(buffer) == ["aaa", "bb"]
    assert buffer.dropped == {"control": 1, "detail": 0}


def test_a_batch_has_control_first_and_at_least_one_span() -> None:
    buffer = SpanBuffer(max_spans=100, max_bytes=1000)
    buffer.add(span("detail", "detail"))
    buffer.add(span("control", "control"))
    assert [s.kind for s in buffer.take(max_spans=10, max_bytes=1)] == ["control"]


def test_a_batch_given_back_is_the_next_batch() -> None:
    buffer = SpanBuffer(max_spans=100, max_bytes=1000)
    for name in ("1", "2", "3"):
        buffer.add(span("control", name))
    batch = buffer.take(max_spans=2, max_bytes=1000)
    buffer.give_back(batch)
    assert take(buffer) == ["1", "2", "3"]


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "take", "back"]), st.booleans(), st.integers(0, 12)), max_size=80
    )
)
def test_bounds_hold_and_every_span_is_accounted_for(moves: list[tuple[str, bool, int]]) -> None:
    buffer = SpanBuffer(max_spans=5, max_bytes=20)
    added = gone = 0
    batch: list[EncodedSpan] = []
    for move, control, size in moves:
        if move == "add":
            buffer.add(EncodedSpan("control" if control else "detail", b"x" * size))
            added += 1
        elif move == "take":
            gone += len(batch)
            batch = buffer.take(max_spans=3, max_bytes=15)
        else:
            buffer.give_back(batch)
            batch = []
        assert len(buffer) <= 5
        assert added == gone + len(batch) + len(buffer) + sum(buffer.dropped.values())
    waiting = len(buffer)
    assert buffer.drop_all() == waiting
    assert not len(buffer)
