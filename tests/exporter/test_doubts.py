"""Settings that can be, and are hardly meant, are said; all others are not."""

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from exporter.config import ExporterConfig
from exporter.doubts import find_doubts
from exporter.guard import Guard
from exporter.listeners import open_guard
from tests.exporter.test_cli import run_exporter
from tests.web_config import Authority, token_digest, write_web_config


def doubts(environment: dict[str, str] | None = None, **settings: Any) -> list[str]:
    config = ExporterConfig(**settings)
    guards = {name: open_guard(name, config) for name in ("listen", "otlp")}
    return list(find_doubts(config, environment or {}, guards))


def test_the_defaults_and_what_other_programs_set_raise_no_doubt() -> None:
    others = {
        "ASYNCRL_EXPORTER_SERVICE_PORT_METRICS": "9810",
        "ASYNCRL_EXPORTER_PORT_4318_TCP": "tcp://10.0.0.1:4318",
        "ASYNCRL_CONFIG": "exporter.yml",
        "ASYNCRL_GRACE_SECONDS": "20",
        "GRACE": "20",
    }
    assert doubts(others) == []


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("ASYNCRL_GRACE", "ASYNCRL_GRACE_SECONDS"),
        ("ASYNCRL_LISTN", "ASYNCRL_LISTEN"),
        ("ASYNCRL_FINISHED_RUN_GRACE", "ASYNCRL_FINISHED_RUN_GRACE_SECONDS"),
    ],
)
def test_a_variable_that_is_nearly_a_setting_is_said(variable: str, meant: str) -> None:
    assert doubts({variable: "20"}) == [f"{variable} is no setting; is {meant} meant?"]


def test_times_that_contradict_each_other_are_said() -> None:
    said = doubts(retention_days=0.001, abandon_after_seconds=15.0)
    assert [doubt.partition(" is ")[0] for doubt in said] == ["retention_days", "abandon_after_seconds"]


def test_an_open_listener_that_asks_nobody_or_asks_in_the_clear_is_said(tmp_path: Path) -> None:
    tokens = {"bearer_tokens": {"t": token_digest("x")}}
    plain = write_web_config(tmp_path / "plain.yml", **tokens)
    certificate, key = Authority.found(tmp_path).issue("server")
    tls = {"cert_file": str(certificate), "key_file": str(key)}
    secret = write_web_config(tmp_path / "tls.yml", tls_server_config=tls, **tokens)
    assert doubts(listen="127.0.0.1:0", web_config=plain) == []
    assert doubts(listen="0.0.0.0:0", web_config=secret) == []
    (said,) = doubts(listen="0.0.0.0:0", web_config=plain)
    assert said.startswith("listen takes passwords and tokens from other machines in plain HTTP")
    (said,) = doubts(otlp="0.0.0.0:0", insecure=True)
    assert said.startswith("otlp is open to other machines and asks nobody")


def test_a_certificate_that_has_ended_or_ends_within_two_weeks_is_said(tmp_path: Path) -> None:
    authority = Authority.found(tmp_path)

    def said_of(end: datetime) -> list[str]:
        certificate, key = authority.issue("server", end=end)
        tls = {"cert_file": str(certificate), "key_file": str(key)}
        return doubts(otlp_web_config=write_web_config(tmp_path / "web.yml", tls_server_config=tls))

    now = datetime.now(UTC)
    assert said_of(now + timedelta(days=15)) == []
    ends, ended = now + timedelta(days=13), now - timedelta(minutes=5)
    assert said_of(ends) == [
        f"otlp: the certificate in {tmp_path}/server.crt ends at {ends:%Y-%m-%d %H:%M} UTC: renew it"
    ]
    assert said_of(ended) == [
        f"otlp: the certificate in {tmp_path}/server.crt ended at {ended:%Y-%m-%d %H:%M} UTC: "
        "clients that check it stay away"
    ]


def test_a_renewed_certificate_that_ends_soon_is_said_when_it_is_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority.found(tmp_path)
    certificate, key = authority.issue("server")
    tls = {"cert_file": str(certificate), "key_file": str(key)}
    guard = Guard("otlp", write_web_config(tmp_path / "web.yml", tls_server_config=tls), exposed=False)
    assert guard.doubt == ""
    authority.issue("server", end=datetime.now(UTC) + timedelta(days=1))
    with caplog.at_level(logging.WARNING):
        guard.reload_if_changed()
    assert [record.getMessage() for record in caplog.records] == ["doubtful setting"]


def test_check_config_says_its_doubts_and_is_content() -> None:
    done = run_exporter("--check-config", "--abandon-after", "1")
    assert done.returncode == 0
    assert done.stderr.startswith(
        "asyncrl exporter: warning: abandon_after_seconds is not above grace_seconds"
    )
    assert "abandon_after_seconds: 1.0" in done.stdout
