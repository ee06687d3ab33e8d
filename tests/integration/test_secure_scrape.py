"""A real Prometheus scrapes over TLS with a password, from a web config file that Prometheus' own tool accepts."""

import subprocess
from pathlib import Path

from tests.exporter.conftest import StartExporter
from tests.prometheus import require_binary, run_prometheus
from tests.web_config import Authority, bcrypt_hash, write_web_config
from tests.wire import WATCHDOG_SECONDS


def test_prometheus_scrapes_over_tls_with_a_password(start_exporter: StartExporter, tmp_path: Path) -> None:
    authority = Authority.found(tmp_path)
    certificate, key = authority.issue("server")
    web_config = write_web_config(
        tmp_path / "scrape.yml",
        tls_server_config={"cert_file": certificate.name, "key_file": key.name, "min_version": "TLS12"},
        basic_auth_users={"prometheus": bcrypt_hash("secret").replace("$2b$", "$2y$")},
        http_server_config={"headers": {"X-Content-Type-Options": "nosniff"}},
    )
    checked = subprocess.run(
        [require_binary("promtool"), "check", "web-config", str(web_config)],
        capture_output=True,
        text=True,
        timeout=WATCHDOG_SECONDS,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    exporter = start_exporter("--web-config", str(web_config), ca_file=authority.ca_file)
    with run_prometheus(
        tmp_path,
        [exporter.metrics],
        interval_seconds=0.5,
        scheme="https",
        tls_config={"ca_file": str(authority.ca_file)},
        basic_auth={"username": "prometheus", "password": "secret"},
    ) as prometheus:
        prometheus.wait_for("asyncrl_exporter_build_info")
        assert prometheus.query('asyncrl_exporter_refused_requests_total{listener="listen"} > 0') == []
