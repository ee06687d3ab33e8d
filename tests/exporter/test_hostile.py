"""Hard to hurt: whoever misbehaves, scrapes and other senders go on, memory stays bounded, each refusal is counted."""

import gzip
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests

from tests.exporter.conftest import StartedExporter, StartExporter
from tests.memory import peak_bytes, resident_bytes
from tests.page import check_page
from tests.web_config import Authority, write_web_config
from tests.wire import PROTOBUF, WATCHDOG_SECONDS, Emitter, Scrape, post_raw, scrape_until

MEBIBYTE = 2**20


class GoodSender:
    """A trainer among villains: each `go_on` publishes a version and sees it on the page, in order and complete."""

    def __init__(self, exporter: StartedExporter) -> None:
        self._exporter = exporter
        self._trainer = Emitter(exporter.otlp, run="good", source="good-trainer")
        self._version = 0

    def go_on(self) -> Scrape:
        self._version += 1
        loss = float(self._version)
        answer = self._trainer.post(*self._trainer.window(self._version, [{"policy_loss": loss}]))
        assert (answer.status, answer.rejected) == (200, 0), answer
        page = scrape_until(
            self._exporter.metrics, lambda page: page.value("asyncrl_policy_loss", run="good") == loss
        )
        assert page.value("asyncrl_versions_sealed_total", run="good", complete="true") == self._version
        check_page(page.text, page.content_type)
        return page


def connect(url: str) -> socket.socket:
    address = urlsplit(url)
    assert address.hostname
    assert address.port
    return socket.create_connection((address.hostname, address.port), timeout=WATCHDOG_SECONDS)


HALVES = [
    b"",
    b"GET /metrics HT",
    b"GET /metrics HTTP/1.1\r\nhost: x\r\nx-never-",
    b"POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n{",
    b"POST /v1/traces HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nffff\r\nabc",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
]


def test_300_half_sent_requests_hold_nobody_up(start_exporter: StartExporter) -> None:
    exporter = start_exporter()
    good = GoodSender(exporter)
    good.go_on()
    before = resident_bytes(exporter.process.pid)
    with ExitStack() as held:
        for number in range(300):
            for url in (exporter.metrics, exporter.otlp):
                connection = held.enter_context(connect(url))
                connection.sendall(HALVES[number % len(HALVES)])
        page = good.go_on()
        assert page.by_label("asyncrl_exporter_connections", "listener")["otlp"] >= 250  # nonsense is cut off
        assert page.value("asyncrl_exporter_connections_ended_total", listener="otlp", reason="crowded") == 0
        assert resident_bytes(exporter.process.pid) - before < 100 * MEBIBYTE


def test_a_crowd_beyond_the_bound_costs_only_the_crowd(start_exporter: StartExporter) -> None:
    exporter = start_exporter("--max-connections", "16")
    good = GoodSender(exporter)
    with ExitStack() as held:
        for number in range(60):
            for url in (exporter.metrics, exporter.otlp):
                held.enter_context(connect(url)).sendall(HALVES[number % len(HALVES)])
            if number % 20 == 19:
                page = good.go_on()
        for listener in ("listen", "otlp"):
            assert page.by_label("asyncrl_exporter_connections", "listener")[listener] <= 16
            ended = page.by_label("asyncrl_exporter_connections_ended_total", "reason", listener=listener)
            assert ended["crowded"] >= 30


def test_idle_tls_connections_hold_nobody_up(start_exporter: StartExporter, tmp_path: Path) -> None:
    authority = Authority.found(tmp_path)
    certificate, key = authority.issue("server")
    web_config = write_web_config(
        tmp_path / "web.yml", tls_server_config={"cert_file": str(certificate), "key_file": str(key)}
    )
    exporter = start_exporter("--web-config", str(web_config), ca_file=authority.ca_file)
    context = ssl.create_default_context(cafile=str(authority.ca_file))
    with ExitStack() as held:
        for start in (b"", b"\x16\x03\x01\x02", b"GET / HTTP/1.1\r\n\r\n"):
            for _ in range(10):  # no handshake, half of one, none of TLS
                held.enter_context(connect(exporter.metrics)).sendall(start)
        for _ in range(10):  # a handshake, and nothing after it
            plain = held.enter_context(connect(exporter.metrics))
            held.enter_context(context.wrap_socket(plain, server_hostname="127.0.0.1"))
        answer = requests.get(
            f"{exporter.metrics}/metrics", verify=str(authority.ca_file), timeout=WATCHDOG_SECONDS
        )
        assert answer.status_code == 200


def test_slow_readers_hold_up_nobody_and_no_copy_of_the_page(start_exporter: StartExporter) -> None:
    exporter = start_exporter()
    good = GoodSender(exporter)
    values = {f"metric_{number}_{'x' * 80}": 1.0 for number in range(250)}
    for run in range(12):
        wide = Emitter(exporter.otlp, run=f"wide{run}", source=f"wide{run}")
        assert wide.post(*wide.window(1, [values])).rejected == 0
    page = scrape_until(exporter.metrics, lambda page: page.value("asyncrl_param_version", run="wide11") == 1)
    page_bytes = len(page.text)
    assert page_bytes > MEBIBYTE / 2
    before = resident_bytes(exporter.process.pid)
    with ExitStack() as held:
        for _ in range(100):
            reader = held.enter_context(connect(exporter.metrics))
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.sendall(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n")
            assert reader.recv(16)  # the head is there; the rest is left where it is
        good.go_on()
        assert resident_bytes(exporter.process.pid) - before < 100 * page_bytes / 2


def zeros(count: int) -> Iterator[bytes]:
    piece = bytes(MEBIBYTE)
    for _ in range(count):
        yield piece


def refused_bodies(mebibytes: int) -> list[tuple[str, Callable[[str], int]]]:
    bomb = gzip.compress(bytes(128 * MEBIBYTE), 9)
    forged = bomb[:-4] + struct.pack("<I", 10)  # a trailer that claims 10 bytes

    def post(body: bytes | Iterator[bytes], **how: str) -> Callable[[str], int]:
        return lambda url: post_raw(url, body, **how).status

    return [
        ("a body in chunks", lambda url: post_raw(url, zeros(mebibytes)).status),
        ("a gzip bomb", post(bomb, encoding="gzip")),
        ("a gzip bomb that claims to be small", post(forged, encoding="gzip")),
        (
            "JSON of a million keys",
            post(
                b'{"resourceSpans":[{' + b",".join(b'"%d":1' % key for key in range(1_000_000)) + b"}]}",
                content_type="application/json",
            ),
        ),
    ]


def check_refused_bodies(exporter: StartedExporter, mebibytes: int) -> None:
    good = GoodSender(exporter)
    good.go_on()
    before = resident_bytes(exporter.process.pid)
    bodies = refused_bodies(mebibytes)
    for what, send in bodies:
        assert send(exporter.otlp) == 413, what
        page = good.go_on()
    assert page.value("asyncrl_exporter_requests_total", signal="traces", status=413) == len(bodies)
    # The limit before and after decompression, and what is being decoded.
    assert peak_bytes(exporter.process.pid) - before < 4 * 16 * MEBIBYTE


def test_c95_oversized_bodies_are_413_while_others_go_on(start_exporter: StartExporter) -> None:
    check_refused_bodies(start_exporter("--max-body-bytes", str(16 * MEBIBYTE)), 100)


@pytest.mark.soak
def test_c95_a_body_of_a_gigabyte_is_413_while_others_go_on(start_exporter: StartExporter) -> None:
    check_refused_bodies(start_exporter("--max-body-bytes", str(16 * MEBIBYTE)), 1024)


def test_c95_malformed_bodies_are_400_and_counted(start_exporter: StartExporter) -> None:
    exporter = start_exporter()
    good = GoodSender(exporter)
    valid = Emitter(exporter.otlp).request(Emitter(exporter.otlp).train_step(1, 1)).SerializeToString()
    deep_json = b'{"resourceSpans":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    nested = b""
    for _ in range(200):
        nested = field(5, field(1, nested))  # a value that is an array of values
    nested = field(1, field(2, field(2, field(9, field(2, nested)))))  # of an attribute of a span
    bad = [
        (valid[:-1], PROTOBUF, ""),
        (b"\xff" * 1000, PROTOBUF, ""),
        (nested, PROTOBUF, ""),
        (b"\x0a\xff\xff\xff\xff\x0f", PROTOBUF, ""),
        (deep_json, "application/json", ""),
        (b'{"resourceSpans": 7}', "application/json", ""),
        (gzip.compress(valid)[:-9], PROTOBUF, "gzip"),
        (b"not gzip", PROTOBUF, "gzip"),
    ]
    for body, content_type, encoding in bad:
        answer = post_raw(exporter.otlp, body, content_type=content_type, encoding=encoding)
        assert answer.status == 400, body[:40]
    page = good.go_on()
    assert page.value("asyncrl_exporter_requests_total", signal="traces", status=400) == len(bad)


LONG = 'a"\\\n' * 2500


def test_c34_ten_thousand_characters_are_cut_and_forge_nothing(start_exporter: StartExporter) -> None:
    exporter = start_exporter("--grace", "0.1")
    good = GoodSender(exporter)
    about = {"rl.model.name": LONG, "rl.algorithm": LONG, "service.name": LONG, "asyncrl.schema_version": "1"}
    trainer = Emitter(exporter.otlp, run=LONG, source=LONG, resource=about)
    values = {LONG: 1.0, "policy_loss": 2.0, "fine": 3.0}
    step = trainer.train_step(1, 1, values=values, attributes={"asyncrl.reported.fine": 4.0, LONG: LONG})
    assert trainer.post(step, trainer.weight_sync(1, 1, rollouters=[LONG])).status == 200
    rollouter = Emitter(exporter.otlp, run=LONG, role="rollouter", source="o")
    window = rollouter.rollouter_window(1, LONG, {"generating": 1.0})
    assert rollouter.post(window, rollouter.span(LONG, 1)).status == 200
    state = {"asyncrl.rollouter": LONG, "asyncrl.state": LONG}
    assert rollouter.post_metrics(rollouter.gauge("asyncrl.rollouter.state", 1, state)).rejected == 1
    run = LONG[:200]
    page = scrape_until(exporter.metrics, lambda page: page.value("asyncrl_policy_loss", run=run) == 2.0)
    assert page.value("asyncrl_user_fine", run=run) == 3.0
    assert page.value("asyncrl_rejected_records_total", run=run, reason="bad_name") == 1
    assert max(len(value) for _, labels in page.samples for _, value in labels) <= 200
    check_page(page.text, page.content_type)
    good.go_on()


def field(number: int, content: bytes) -> bytes:
    """One length-delimited field of a protobuf message."""
    size, left = bytearray(), len(content)
    while left > 127:
        size.append(left & 127 | 128)
        left >>= 7
    return bytes((number << 3 | 2, *size, left)) + content
