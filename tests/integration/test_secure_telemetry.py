"""The runtime's telemetry into an exporter that asks for a token over TLS, or for a client's certificate."""

from pathlib import Path
from typing import Any

import pytest

from runtime.telemetry import schema
from runtime.telemetry.config import Identity, TelemetryConfig
from runtime.telemetry.emitter import Telemetry
from tests.exporter.conftest import StartExporter
from tests.web_config import Authority, token_digest, write_web_config
from tests.wire import WATCHDOG_SECONDS, scrape_until


@pytest.mark.parametrize("proof", ["token", "certificate"])
def test_the_runtime_shows_who_it_is(start_exporter: StartExporter, tmp_path: Path, proof: str) -> None:
    authority = Authority.found(tmp_path)
    certificate, key = authority.issue("server")
    tls = {"cert_file": str(certificate), "key_file": str(key)}
    settings: dict[str, Any] = {"ca_file": str(authority.ca_file)}
    sections: dict[str, Any] = {"tls_server_config": tls}
    token_file = tmp_path / "token"
    if proof == "token":
        token_file.write_text("old\n", encoding="utf-8")
        settings["token_file"] = str(token_file)
        sections["bearer_tokens"] = {"trainers": token_digest("new")}
    else:
        client_certificate, client_key = authority.issue("client", "client")
        settings |= {"client_cert_file": str(client_certificate), "client_key_file": str(client_key)}
        tls |= {"client_ca_file": "ca.crt", "client_auth_type": "RequireAndVerifyClientCert"}
    web_config = write_web_config(tmp_path / "otlp.yml", **sections)
    exporter = start_exporter("--otlp-web-config", str(web_config))
    config = TelemetryConfig(endpoints=(exporter.otlp,), flush_interval_seconds=0.05, **settings)
    telemetry = Telemetry(config, Identity(run_id="r", role="trainer"))
    try:
        now_ns = telemetry.clock.now_ns()
        attributes: dict[str, Any] = {schema.STEPS_IN_WINDOW: 0, schema.ROLLOUTERS: []}
        telemetry.control(
            schema.WEIGHT_SYNC,
            param_version=7,
            start_ns=now_ns,
            end_ns=now_ns,
            attributes=attributes,
            values={},
        )
        if proof == "token":
            assert not telemetry.flush(0.5)  # 401 now; nothing is dropped for it
            (endpoint,) = telemetry.stats().endpoints
            assert endpoint.last_failure.endswith("failed, HTTP 401: 'credentials are missing or wrong'")
            token_file.write_text("new\n", encoding="utf-8")
        assert telemetry.flush(WATCHDOG_SECONDS)
        assert telemetry.stats().dropped == {"control": 0, "detail": 0}
    finally:
        telemetry.shutdown(WATCHDOG_SECONDS)
    scrape_until(exporter.metrics, lambda page: page.value("asyncrl_param_version", run="r") == 7)
