"""A handshake that fails: its client is told why, its operator who and how often."""

from pathlib import Path

import pytest
import requests

from tests.exporter.conftest import StartExporter
from tests.exporter.test_access import await_that, get, tls_section
from tests.web_config import Authority, write_web_config


def test_a_failed_handshake_is_answered_counted_and_in_the_log(
    start_exporter: StartExporter, tmp_path: Path
) -> None:
    ours = Authority.found(tmp_path)
    section = tls_section(
        ours.issue("server"), client_ca_file="ca.crt", client_auth_type="RequireAndVerifyClientCert"
    )
    web_config = write_web_config(tmp_path / "web.yml", tls_server_config=section)
    exporter = start_exporter("--otlp-web-config", str(web_config))
    plain = get(exporter.otlp.replace("https:", "http:"))
    assert (plain.status_code, plain.text) == (400, "this listener speaks TLS: ask for https://\n")
    with pytest.raises(requests.ConnectionError, match=r"(?i)certificate.required"):
        get(exporter.otlp, verify=str(ours.ca_file))
    with pytest.raises(requests.exceptions.SSLError):
        get(exporter.otlp)
    failed = 'asyncrl_exporter_handshakes_failed_total{listener="otlp"} 3.0'
    await_that(lambda: failed in get(f"{exporter.metrics}/metrics").text)
    page = get(f"{exporter.metrics}/metrics").text
    assert 'asyncrl_exporter_handshakes_failed_total{listener="listen"} 0.0' in page
    _, said = exporter.stop()
    lines = [line.partition(" event=")[2] for line in said.splitlines() if "event=refused" in line]
    assert lines == [
        f'refused listener=otlp peer=127.0.0.1 reason="{reason}"'
        for reason in (
            "plain HTTP where TLS is spoken",
            "no client certificate",
            "the client does not trust our certificate",
        )
    ]
