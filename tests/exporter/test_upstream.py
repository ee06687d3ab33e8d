"""Where the exporter may send, what the environment adds, and what an answer means."""

import gzip
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from exporter import cli
from exporter.config import ExporterConfig
from exporter.errors import ConfigError
from exporter.upstream import Answer, Backoff, Upstream, UpstreamConfig
from tests.exporter.conftest import StartExporter
from tests.web_config import Authority
from tests.wire import Emitter, scrape_until

Request = tuple[str, dict[str, str], bytes]


@contextmanager
def answering(
    status: int, headers: dict[str, str] | None = None, *, tls: ssl.SSLContext | None = None
) -> Iterator[tuple[str, list[Request]]]:
    """A server that gives every POST one answer: its URL, and what it was sent."""
    seen: list[Request] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            seen.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(status)
            for name, value in {**(headers or {}), "Content-Length": "0"}.items():
                self.send_header(name, value)
            self.end_headers()

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Quiet."""

    class Server(HTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """A handshake that fails is the test's."""

        def get_request(self) -> tuple[socket.socket, Any]:
            connection, address = super().get_request()
            return (connection if tls is None else tls.wrap_socket(connection, server_side=True)), address

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http{'' if tls is None else 's'}://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize("name", ["push", "forward_spans"])
@pytest.mark.parametrize(
    "url",
    [
        "store:4318",
        "ftp://store",
        "http://",
        "http://store:port",
        "http://store:70000",
        "http://store/?x=1",
        "http://store/v1/metrics",
        "http://store/otlp/v1/traces/",
        "http://[::1",
        7,
    ],
)
def test_what_is_no_base_url_is_a_mistake(name: str, url: Any) -> None:
    with pytest.raises(ConfigError, match=name):
        ExporterConfig(**{name: url})


def test_credentials_in_a_url_are_a_mistake_that_is_not_repeated() -> None:
    with pytest.raises(ConfigError, match="OTEL_EXPORTER_OTLP_HEADERS") as mistake:
        ExporterConfig(push="http://user:secret@store")
    assert "secret" not in str(mistake.value)


@pytest.mark.parametrize(
    ("listener", "url"),
    [
        ({"otlp": "127.0.0.1:4318"}, "http://127.0.0.1:4318"),
        ({"otlp": "127.0.0.1:4318"}, "http://localhost:4318/"),
        ({"otlp": "localhost:4318"}, "http://127.0.0.1:4318/path"),
        ({"otlp": "[::1]:4318"}, "http://[::1]:4318"),
        ({"otlp": "0.0.0.0:4318", "insecure": True}, "http://127.0.0.1:4318"),
        ({"listen": "127.0.0.1:80"}, "http://127.0.0.1"),
    ],
)
@pytest.mark.parametrize("name", ["push", "forward_spans"])
def test_the_exporters_own_listeners_are_no_receivers(name: str, listener: dict[str, Any], url: str) -> None:
    with pytest.raises(ConfigError, match="own listener"):
        ExporterConfig(**{**listener, name: url})


def test_another_machine_or_port_is_a_receiver() -> None:
    ExporterConfig(
        otlp="0.0.0.0:4318", insecure=True, push="http://192.0.2.1:4318"
    )  # a documentation address
    ExporterConfig(push="http://127.0.0.1:4319", forward_spans="https://store.invalid/otlp")


def test_the_command_says_so_in_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    flags = ["--otlp", "127.0.0.1:14318", "--push", "http://localhost:14318", "--data-dir", str(tmp_path)]
    assert cli.main(flags) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "push must not be the exporter's own listener" in said


def test_the_environment_adds_what_no_flag_says() -> None:
    config = UpstreamConfig.from_environment(
        "metrics",
        "https://store/base/",
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://elsewhere",  # the flag is the address
            "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20common,x-scope=a",
            "OTEL_EXPORTER_OTLP_METRICS_HEADERS": " authorization = Bearer%20t%3D1 , x-tenant=b",
            "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "1",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "2500",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
        },
    )
    assert config == UpstreamConfig(
        url="https://store/base/v1/metrics",
        headers={"authorization": "Bearer t=1", "x-tenant": "b"},
        timeout_seconds=2.5,
        compressed=True,
    )
    assert "Bearer" not in repr(config)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("HEADERS", "secret"),
        ("HEADERS", "=secret"),
        ("COMPRESSION", "zstd"),
        ("TIMEOUT", "0"),
        ("TIMEOUT", "10s"),
        ("CERTIFICATE", "/nowhere/ca.pem"),
        ("CERTIFICATE", __file__),
        ("CLIENT_CERTIFICATE", __file__),
        ("CLIENT_KEY", __file__),
    ],
)
def test_a_variable_that_cannot_be_is_a_mistake(variable: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"OTEL_EXPORTER_OTLP_{variable}") as mistake:
        UpstreamConfig.from_environment("traces", "http://store", {f"OTEL_EXPORTER_OTLP_{variable}": value})
    assert "secret" not in str(mistake.value)


def test_a_post_carries_headers_and_compression() -> None:
    with answering(200) as (url, seen):
        config = UpstreamConfig(
            url=f"{url}/v1/metrics", headers={"authorization": "Bearer t"}, compressed=True
        )
        upstream = Upstream("metrics", config)
        assert upstream.post(b"body" * 100).delivered
        upstream.close()
    ((path, headers, body),) = seen
    assert path == "/v1/metrics"
    assert headers["authorization"] == "Bearer t"
    assert headers["content-type"] == "application/x-protobuf"
    assert headers["content-encoding"] == "gzip"
    assert gzip.decompress(body) == b"body" * 100


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("-5", 0.0),
        ("1e9", 3600.0),
        ("soon", None),
        ("nan", None),
        (format_datetime(datetime.now(UTC) + timedelta(hours=20)), 3600.0),
        (format_datetime(datetime.now(UTC) - timedelta(hours=20)), 0.0),
    ],
)
def test_a_receiver_says_when_to_come_again(retry_after: str, seconds: float | None) -> None:
    with answering(429, {"Retry-After": retry_after}) as (url, _):
        upstream = Upstream("metrics", UpstreamConfig(url=url))
        answer = upstream.post(b"")
        upstream.close()
    assert answer.retry_after_seconds == seconds
    assert not answer.delivered
    assert not answer.refused
    waits = Backoff().failed(answer)
    assert waits == seconds if seconds is not None else 0.25 <= waits <= 0.5


def test_back_off_grows_to_a_bound_and_starts_again_after_a_success() -> None:
    backoff = Backoff()
    no_answer = Answer(status=0)
    waits = [backoff.failed(no_answer) for _ in range(40)]
    assert all(
        0.5 * least <= wait <= least for wait, least in zip(waits, (0.5, 1, 2, 4, 8, 16), strict=False)
    )
    assert all(15 <= wait <= 30 for wait in waits[6:])
    backoff.succeeded()
    assert backoff.failed(no_answer) <= 0.5


def test_a_receiver_behind_tls_is_checked_and_told_who_we_are(tmp_path: Path) -> None:
    authority = Authority.found(tmp_path)
    certificate, key = authority.issue("receiver")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    tls.load_verify_locations(authority.ca_file)
    tls.verify_mode = ssl.CERT_REQUIRED
    ours, our_key = authority.issue("exporter")
    strangers = Authority.found(tmp_path, "stranger").ca_file
    identity: dict[str, Any] = {"client_certificate": str(ours), "client_key": str(our_key)}
    with answering(200, tls=tls) as (url, seen):
        for config, delivered in (
            (UpstreamConfig(url=url, certificate=str(authority.ca_file), **identity), True),
            (UpstreamConfig(url=url, certificate=str(authority.ca_file)), False),  # says not who it is
            (UpstreamConfig(url=url, certificate=str(strangers), **identity), False),  # trusts others
            (UpstreamConfig(url=url, **identity), False),
        ):
            upstream = Upstream("metrics", config)
            answer = upstream.post(b"body")
            upstream.close()
            assert answer.delivered == delivered, answer
            assert answer.delivered or answer.status == 0  # and so tried again: nothing is lost for it
    assert len(seen) == 1


def test_variables_of_opentelemetry_are_read_for_a_push_and_for_nothing_else(
    start_exporter: StartExporter,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    environment = {
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20t",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "9000",
    }
    with answering(200) as (url, seen):
        exporter = start_exporter("--push", url, environment=environment)
        trainer = Emitter(exporter.otlp)
        trainer.post(*trainer.window(1, [{"policy_loss": 0.5}]))
        scrape_until(exporter.metrics, lambda page: page.value("asyncrl_exporter_push_queue") == 0)
        assert exporter.stop()[0] == 0
    assert {(path, headers["authorization"]) for path, headers, _ in seen} == {("/v1/metrics", "Bearer t")}
    wrong = {"OTEL_EXPORTER_OTLP_TIMEOUT": "never"}
    assert start_exporter(environment=wrong).stop()[0] == 0
    places = ["--listen", "127.0.0.1:0", "--otlp", "127.0.0.1:0", "--data-dir", str(tmp_path / "refused")]
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "never")
    assert cli.main([*places, "--push", "http://127.0.0.1:1"]) == 2
    assert "OTEL_EXPORTER_OTLP_TIMEOUT must be milliseconds" in capsys.readouterr().err
