"""Spans become bytes in their order, whoever encodes them, and none is lost but in time that is over."""

import logging
import threading
from collections.abc import Mapping

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider

from runtime.telemetry import span_encoder
from runtime.telemetry.partial import Partial
from runtime.telemetry.span_buffer import EncodedSpan, Kind
from runtime.telemetry.span_encoder import MOST_WAITING, Said, SpanEncoder

WATCHDOG_SECONDS = 60.0


class Heard:
    """What came out of an encoder."""

    def __init__(self) -> None:
        self.spans: list[bytes] = []
        self.dropped = 0

    def deliver(self, span: EncodedSpan) -> None:
        self.spans.append(span.data)

    def drop(self, kind: Kind) -> None:
        self.dropped += 1


@pytest.fixture
def heard() -> Heard:
    return Heard()


def said(number: int) -> Said:
    span = TracerProvider(shutdown_on_exit=False).get_tracer("t").start_span(str(number))
    assert isinstance(span, ReadableSpan)
    return Said("control", span, {})


def by_name(span: ReadableSpan, values: Mapping[str, float | Partial]) -> bytes:
    return span.name.encode()


@pytest.fixture(autouse=True)
def spans_are_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_encoder, "encode_span", by_name)


def names(first: int, last: int) -> list[bytes]:
    return [str(number).encode() for number in range(first, last)]


def test_who_says_more_than_the_thread_can_take_helps_it(
    heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is lost, the order stays, and no more than that many spans wait."""
    monkeypatch.setattr(SpanEncoder, "_run", lambda self: None)
    encoder = SpanEncoder(heard.deliver, heard.drop)
    for number in range(MOST_WAITING + 10):
        encoder.add(said(number))
    assert heard.spans == names(0, 10)
    encoder.drain(WATCHDOG_SECONDS)
    assert heard.spans == names(0, MOST_WAITING + 10)
    assert heard.dropped == 0


def test_where_nobody_can_help_the_oldest_is_dropped(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a signal handler that interrupted what the thread waits for."""
    monkeypatch.setattr(span_encoder, "HELP_TIMEOUT_SECONDS", 0.001)
    delivering, go_on = threading.Event(), threading.Event()

    def deliver(span: EncodedSpan) -> None:
        delivering.set()
        go_on.wait(WATCHDOG_SECONDS)
        heard.deliver(span)

    encoder = SpanEncoder(deliver, heard.drop)
    encoder.add(said(0))
    assert delivering.wait(WATCHDOG_SECONDS)
    for number in range(1, MOST_WAITING + 4):
        encoder.add(said(number))
    assert heard.dropped == 3
    go_on.set()
    encoder.drain(WATCHDOG_SECONDS)
    assert heard.spans == [b"0", *names(4, MOST_WAITING + 4)]


def test_a_drain_waits_for_the_span_in_the_threads_hands(
    heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoding, go_on = threading.Event(), threading.Event()

    def slowly(span: ReadableSpan, values: Mapping[str, float | Partial]) -> bytes:
        encoding.set()
        go_on.wait(WATCHDOG_SECONDS)
        return by_name(span, values)

    monkeypatch.setattr(span_encoder, "encode_span", slowly)
    encoder = SpanEncoder(heard.deliver, heard.drop)
    encoder.add(said(0))
    assert encoding.wait(WATCHDOG_SECONDS)
    encoder.drain(0.01)
    assert heard.spans == []
    threading.Timer(0.1, go_on.set).start()
    encoder.drain(WATCHDOG_SECONDS)
    assert heard.spans == [b"0"]


def test_a_drain_ends_with_its_time(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SpanEncoder, "_run", lambda self: None)
    encoder = SpanEncoder(heard.deliver, heard.drop)
    for number in range(100):
        encoder.add(said(number))
    encoder.drain(-1.0)
    assert heard.spans == []
    encoder.close()
    assert heard.dropped == 100


def test_of_many_spans_that_cannot_be_encoded_one_line_a_minute_tells(
    heard: Heard, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(span: ReadableSpan, values: Mapping[str, float | Partial]) -> bytes:
        raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")

    monkeypatch.setattr(span_encoder, "encode_span", fail)
    encoder = SpanEncoder(heard.deliver, heard.drop)
    with caplog.at_level(logging.ERROR):
        for number in range(50):
            encoder.add(said(number))
        encoder.drain(WATCHDOG_SECONDS)
    assert heard.dropped == 50
    assert len(caplog.records) == 1
