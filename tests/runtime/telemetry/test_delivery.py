"""Delivery against real sockets that work, refuse, hang, are not there, or come up late."""

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource

from runtime.telemetry import schema
from runtime.telemetry.config import TelemetryConfig
from runtime.telemetry.delivery import FIRST_BACKOFF_SECONDS, LAST_BACKOFF_SECONDS, Delivery, Pace
from runtime.telemetry.emitter import Telemetry
from runtime.telemetry.encoding import resource_envelope
from runtime.telemetry.endpoint import LONGEST_RETRY_AFTER_SECONDS, METRICS, TRACES, Endpoint
from runtime.telemetry.span_buffer import EncodedSpan
from tests.otlp_sink import OtlpSink, Reply
from tests.runtime.telemetry.conftest import MakeTelemetry

WATCHDOG_SECONDS = 60.0


def emit(telemetry: Telemetry, count: int, *, attribute: str = "") -> None:
    for step in range(1, count + 1):
        telemetry.control(
            schema.TRAIN_STEP,
            param_version=1,
            start_ns=1,
            end_ns=2,
            attributes={schema.STEP: step, "note": attribute},
        )


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WATCHDOG_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the watchdog ran out"
        time.sleep(0.005)


def seqs(sink: OtlpSink) -> list[object]:
    return [span.attributes[schema.SEQ] for span in sink.spans]


def spans_in(body: bytes) -> int:
    return len(ExportTraceServiceRequest.FromString(body).resource_spans[0].scope_spans[0].spans)


def trace_replies(*replies: Reply) -> Callable[[str, bytes], Reply]:
    """Answers to the next trace requests; 200 for all else."""
    left = iter(replies)
    return lambda path, body: next(left, Reply()) if path == TRACES else Reply()


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that accepts in the kernel's backlog, and nobody ever reads or answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        yield listener.getsockname()[1]


@pytest.mark.parametrize("where", ["closed port", "no such name", "never answers"])
def test_c55_a_bad_endpoint_blocks_neither_emission_nor_shutdown(
    where: str,
    free_port: int,
    silent_port: int,
    make_telemetry: MakeTelemetry,
    caplog: pytest.LogCaptureFixture,
) -> None:
    url = {
        "closed port": f"http://127.0.0.1:{free_port}",
        "no such name": "http://telemetry.invalid:4318",
        "never answers": f"http://127.0.0.1:{silent_port}",
    }[where]
    telemetry = make_telemetry(url, request_timeout_seconds=600.0)
    emit(telemetry, 50)  # returns although nothing will ever be answered
    assert not telemetry.flush(0.2)
    assert telemetry.stats().sent == 0
    assert len(caplog.records) <= 1
    if where != "never answers":
        wait_for(lambda: ("ConnectionRefusedError" if where == "closed port" else "gaierror") in caplog.text)
    telemetry.shutdown(0.2)
    assert telemetry.stats().buffered == 0
    assert telemetry.stats().dropped["control"] == 50
    assert len(caplog.records) <= 2


def test_c55_calls_return_while_the_sink_hangs(sink: OtlpSink, make_telemetry: MakeTelemetry) -> None:
    sink.hang()
    telemetry = make_telemetry(sink.url)
    emit(telemetry, 1)
    sink.wait_for(lambda: sink.hanging > 0)
    emit(telemetry, 500)
    assert telemetry.stats().sent == 0  # we are here, and no answer has been given
    sink.answer()
    assert telemetry.flush(WATCHDOG_SECONDS)
    assert seqs(sink) == list(range(1, 502))


def test_c55_a_sink_that_comes_up_later_receives_everything(
    free_port: int, make_telemetry: MakeTelemetry
) -> None:
    telemetry = make_telemetry(f"http://127.0.0.1:{free_port}")
    emit(telemetry, 20)
    assert not telemetry.flush(0.2)
    with OtlpSink(port=free_port) as sink:
        sink.wait_for(lambda: len(sink.spans) == 20)
        assert seqs(sink) == list(range(1, 21))


def test_c55_failures_without_end_give_one_log_line_a_minute(
    sink: OtlpSink, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="runtime")
    sink.reply = lambda path, body: Reply(status=503, headers={"Retry-After": "0"}, message="no room")
    minutes = [0]
    delivery = Delivery(
        sink.url,
        TelemetryConfig(flush_interval_seconds=0.01),
        resource_envelope(Resource({})),
        monotonic=lambda: time.monotonic() + 61 * minutes[0],
    )
    delivery.add(EncodedSpan("control", b""))
    sink.wait_for(lambda: len(sink.requests) >= 30)
    assert len(caplog.records) == 1
    assert "503" in caplog.text
    assert "no room" in caplog.text
    minutes[0] = 1
    wait_for(lambda: len(caplog.records) == 2)
    delivery.close()
    delivery.join(WATCHDOG_SECONDS)


def test_a_hanging_endpoint_does_not_hold_up_the_other(make_telemetry: MakeTelemetry) -> None:
    with OtlpSink() as dead, OtlpSink() as alive:
        dead.hang()
        telemetry = make_telemetry(dead.url, alive.url)
        emit(telemetry, 1)
        dead.wait_for(lambda: dead.hanging > 0)
        emit(telemetry, 99)
        alive.wait_for(lambda: len(alive.spans) == 100)
        assert dead.spans == []
        assert not telemetry.flush(0.1)
        dead.answer()
        assert telemetry.flush(WATCHDOG_SECONDS)
        assert seqs(dead) == seqs(alive) == list(range(1, 101))


@pytest.mark.parametrize("status", [401, 403, 408, 429, 500, 502, 503, 504])
def test_an_overloaded_endpoint_gets_the_same_spans_again(
    status: int, sink: OtlpSink, make_telemetry: MakeTelemetry
) -> None:
    sink.reply = trace_replies(*[Reply(status=status, headers={"Retry-After": "0"})] * 3)
    telemetry = make_telemetry(sink.url)
    emit(telemetry, 10)
    assert telemetry.flush(WATCHDOG_SECONDS)
    assert seqs(sink) == list(range(1, 11))
    assert telemetry.stats().dropped == {"control": 0, "detail": 0}


def test_a_request_without_an_answer_is_sent_again(sink: OtlpSink, make_telemetry: MakeTelemetry) -> None:
    broken = [True]

    def reply(path: str, body: bytes) -> Reply:
        if path == TRACES and broken.pop() if broken else False:
            raise ConnectionAbortedError  # the sink's handler dies, the connection closes
        return Reply()

    sink.reply = reply
    telemetry = make_telemetry(sink.url)
    emit(telemetry, 3)
    assert telemetry.flush(WATCHDOG_SECONDS)
    assert seqs(sink) == [1, 2, 3]


@pytest.mark.parametrize("status", [400, 404, 415, 301])
def test_a_final_refusal_is_counted_and_not_repeated(
    status: int, sink: OtlpSink, make_telemetry: MakeTelemetry
) -> None:
    telemetry = make_telemetry(sink.url, flush_interval_seconds=10.0)
    emit(telemetry, 1)
    assert telemetry.flush(WATCHDOG_SECONDS)
    sink.reply = trace_replies(Reply(status=status))
    emit(telemetry, 10)
    telemetry.detail(schema.ROLLOUT, start_ns=1, end_ns=2, attributes={})
    assert telemetry.flush(WATCHDOG_SECONDS)
    assert telemetry.stats().dropped == {"control": 10, "detail": 1}
    assert [status for path, status in sink.requests if path == TRACES] == [200, status]


def test_a_batch_too_large_is_halved_until_it_fits(sink: OtlpSink, make_telemetry: MakeTelemetry) -> None:
    sink.hang()
    telemetry = make_telemetry(sink.url)
    emit(telemetry, 1)
    sink.wait_for(lambda: sink.hanging > 0)
    emit(telemetry, 40)
    sink.reply = lambda path, body: Reply(status=413 if path == TRACES and spans_in(body) > 3 else 200)
    sink.answer()
    assert telemetry.flush(WATCHDOG_SECONDS)
    assert seqs(sink) == list(range(1, 42))
    assert 413 in [status for _, status in sink.requests]


def test_a_single_span_too_large_is_dropped_and_costs_no_other(
    sink: OtlpSink, make_telemetry: MakeTelemetry
) -> None:
    sink.reply = lambda path, body: Reply(status=413 if path == TRACES and b"huge" in body else 200)
    telemetry = make_telemetry(sink.url)
    emit(telemetry, 5)
    emit(telemetry, 1, attribute="huge")
    emit(telemetry, 5)
    assert telemetry.flush(WATCHDOG_SECONDS)
    assert seqs(sink) == [1, 2, 3, 4, 5, 7, 8, 9, 10, 11]
    assert telemetry.stats().dropped == {"control": 1, "detail": 0}


def test_halves_that_fail_later_are_kept_in_order(sink: OtlpSink, make_telemetry: MakeTelemetry) -> None:
    sink.hang()
    telemetry = make_telemetry(sink.url)
    emit(telemetry, 1)
    sink.wait_for(lambda: sink.hanging > 0)
    emit(telemetry, 8)
    again = Reply(status=503, headers={"Retry-After": "0"})
    sink.reply = trace_replies(Reply(), Reply(status=413), Reply(), again)
    sink.answer()
    assert telemetry.flush(WATCHDOG_SECONDS)
    assert seqs(sink) == list(range(1, 10))


def test_a_partial_success_is_counted_logged_and_not_repeated(
    sink: OtlpSink, make_telemetry: MakeTelemetry, caplog: pytest.LogCaptureFixture
) -> None:
    sink.reply = trace_replies(Reply(rejected=2, message="duplicate_step"))
    telemetry = make_telemetry(sink.url)
    emit(telemetry, 1)
    assert telemetry.flush(WATCHDOG_SECONDS)
    assert telemetry.stats().rejected == 2
    assert "refused 2 records: duplicate_step" in caplog.text
    (endpoint,) = telemetry.stats().endpoints
    assert (endpoint.endpoint, endpoint.failures) == (sink.url, 1)
    assert endpoint.last_failure == "/v1/traces refused 2 records: duplicate_step"
    assert [path for path, _ in sink.requests].count(TRACES) == 1


def test_a_failed_metrics_post_is_superseded_by_the_next(
    sink: OtlpSink, make_telemetry: MakeTelemetry
) -> None:
    refusals = iter([Reply(status=503), Reply(status=503)])
    sink.reply = lambda path, body: next(refusals, Reply()) if path == METRICS else Reply()
    telemetry = make_telemetry(sink.url, metrics_interval_seconds=0.05)
    count = [0]

    def read() -> list[tuple[float, dict[str, str]]]:
        count[0] += 1
        return [(count[0], {})]

    telemetry.observe_sum(schema.SUM_FED, read)
    sink.wait_for(lambda: any(point.name == schema.SUM_FED for point in sink.points))
    first = next(point for point in sink.points if point.name == schema.SUM_FED)
    assert first.value >= 3  # what the two refused requests said is not sent again


def test_detail_makes_room_for_control(sink: OtlpSink, make_telemetry: MakeTelemetry) -> None:
    sink.hang()
    telemetry = make_telemetry(sink.url, buffer_spans=10)
    emit(telemetry, 1)
    sink.wait_for(lambda: sink.hanging > 0)
    for _ in range(30):
        telemetry.detail(schema.ROLLOUT, start_ns=1, end_ns=2, attributes={})
    emit(telemetry, 9)
    sink.answer()
    assert telemetry.flush(WATCHDOG_SECONDS)
    assert [span.attributes[schema.SEQ] for span in sink.named(schema.TRAIN_STEP)] == list(range(1, 11))
    assert telemetry.stats().dropped["control"] == 0
    assert telemetry.stats().dropped["detail"] >= 29


def test_back_off_grows_with_jitter_to_its_bound_and_starts_anew() -> None:
    pace = Pace()
    for failure in range(40):
        pace.failed(now=100.0, retry_after_seconds=None)
        longest = min(FIRST_BACKOFF_SECONDS * 2**failure, LAST_BACKOFF_SECONDS)
        assert longest / 2 <= pace.not_before - 100.0 <= longest
    pace.delivered(now=100.0, pause_seconds=1.0)
    assert (pace.failures, pace.not_before) == (0, 101.0)


def test_retry_after_is_honoured_instead_of_the_back_off() -> None:
    pace = Pace()
    pace.failed(now=100.0, retry_after_seconds=7.0)
    assert pace.not_before == 107.0


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("-3", 0.0),
        ("99999999", LONGEST_RETRY_AFTER_SECONDS),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", LONGEST_RETRY_AFTER_SECONDS),
        ("soon", None),
        ("nan", None),
        (None, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None, sink: OtlpSink) -> None:
    sink.reply = lambda path, body: Reply(status=429, headers={"Retry-After": header} if header else {})
    endpoint = Endpoint(sink.url, TelemetryConfig(request_timeout_seconds=WATCHDOG_SECONDS))
    answer = endpoint.post(TRACES, b"")
    endpoint.close()
    assert (answer.later, answer.retry_after_seconds) == (True, seconds)


def test_secrets_are_files_because_settings_are_written_down(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="token_file") as caught:
        TelemetryConfig(endpoints=("https://user:secret@host:4318",))
    assert "secret" not in str(caught.value)
    with pytest.raises(ValueError, match="token_file must be an absolute path, got 'token'"):
        TelemetryConfig(token_file="token")
    with pytest.raises(ValueError, match="client_cert_file and client_key_file go together"):
        TelemetryConfig(client_key_file="/client.key")


def test_a_token_file_that_is_not_there_yet_drops_nothing(
    sink: OtlpSink, make_telemetry: MakeTelemetry, tmp_path: Path
) -> None:
    token_file = tmp_path / "token"
    telemetry = make_telemetry(sink.url, token_file=str(token_file))
    emit(telemetry, 3)
    assert not telemetry.flush(0.1)
    for unusable in (b"two\nlines", b"\xff", "\u65e5".encode()):
        token_file.write_bytes(unusable)
        assert not telemetry.flush(0.1)
    assert sink.requests == []
    token_file.write_text("a-token\n", encoding="utf-8")
    assert telemetry.flush(WATCHDOG_SECONDS)
    assert seqs(sink) == [1, 2, 3]


def test_shutdown_ends_all_threads(sink: OtlpSink, make_telemetry: MakeTelemetry) -> None:
    before = set(threading.enumerate())
    telemetry = make_telemetry(sink.url)
    ours = {thread for thread in threading.enumerate() if thread.name.startswith("telemetry")} - before
    assert len(ours) == 3
    telemetry.shutdown(WATCHDOG_SECONDS)
    telemetry.shutdown(WATCHDOG_SECONDS)
    wait_for(lambda: not any(thread.is_alive() for thread in ours))
    emit(telemetry, 1)
    assert telemetry.stats().dropped["control"] == 1
