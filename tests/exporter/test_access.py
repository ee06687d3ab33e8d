"""Who gets in: passwords, tokens and certificates from web config files, on every route, followed as they change."""

import re
import time
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
import requests
from starlette.routing import Route

from exporter.config import ExporterConfig
from exporter.errors import ConfigError
from exporter.ingest import Ingest
from exporter.listeners import open_guard
from exporter.receiver import Receiver
from exporter.scrape_log import ScrapeLog
from exporter.scrape_pages import ScrapePages
from exporter.self_metrics import SelfMetrics
from tests.exporter.conftest import StartExporter
from tests.exporter.test_cli import run_exporter
from tests.web_config import Authority, bcrypt_hash, replace, token_digest, write_web_config
from tests.wire import PROTOBUF, WATCHDOG_SECONDS, Emitter

PASSWORD = ("prometheus", "correct horse")
BASIC = "Basic " + b64encode(":".join(PASSWORD).encode()).decode()
TOKEN = "trainers-token"
OPEN = {"/healthz", "/readyz"}


def get(url: str, **options: Any) -> requests.Response:
    return requests.get(url, timeout=WATCHDOG_SECONDS, allow_redirects=False, **options)


def post(url: str, body: bytes = b"", **headers: str) -> requests.Response:
    return requests.post(
        f"{url}/v1/traces", data=body, headers={"content-type": PROTOBUF, **headers}, timeout=WATCHDOG_SECONDS
    )


def await_that(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WATCHDOG_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.fixture
def web_config(tmp_path: Path) -> Path:
    return write_web_config(
        tmp_path / "web.yml",
        basic_auth_users={"prometheus": bcrypt_hash(PASSWORD[1])},
        http_server_config={"headers": {"X-Frame-Options": "deny"}},
    )


@pytest.fixture
def otlp_web_config(tmp_path: Path) -> Path:
    return write_web_config(tmp_path / "otlp.yml", bearer_tokens={"trainers": token_digest(TOKEN)})


def routes_of(tmp_path: Path) -> dict[str, list[tuple[str, str]]]:
    """(method, path) of every route of the two applications, from their routers."""
    config = ExporterConfig(data_dir=tmp_path / "unused")
    scrapes = ScrapeLog()
    self_metrics = SelfMetrics(scrapes)
    ingest = cast(Ingest, None)  # nothing is asked of it
    receiver = Receiver(config, ingest, self_metrics)
    pages = ScrapePages(config, ingest, scrapes, self_metrics)
    found = {
        name: [
            (method, re.sub(r"\{[^}]*\}", "x", route.path))
            for route in app.routes
            if isinstance(route, Route)
            for method in route.methods or ()
        ]
        for name, app in (("otlp", receiver.app()), ("metrics", pages.app()))
    }
    receiver.close()
    pages.close()
    return found


def test_c94_every_route_of_the_router_but_the_probes_asks_for_credentials(
    start_exporter: StartExporter, web_config: Path, tmp_path: Path
) -> None:
    exporter = start_exporter("--web-config", str(web_config), "--otlp-web-config", str(web_config))
    routes = routes_of(tmp_path)
    assert ("GET", "/metrics") in routes["metrics"]
    assert ("POST", "/v1/traces") in routes["otlp"]
    unknown = [
        (method, path) for method in ("GET", "PUT") for path in ("/nothing", "/debug/pprof", "//metrics")
    ]
    for listener, url in (("metrics", exporter.metrics), ("otlp", exporter.otlp)):
        for method, path in routes[listener] + unknown:
            answer = requests.request(method, url + path, timeout=WATCHDOG_SECONDS, allow_redirects=False)
            if path in OPEN:
                assert (answer.status_code, answer.content) == (200, b"")
                continue
            assert answer.status_code == 401, (method, path)
            assert answer.headers["www-authenticate"] == 'Basic realm="asyncrl exporter", charset="UTF-8"'
            known = requests.request(
                method, url + path, auth=PASSWORD, timeout=WATCHDOG_SECONDS, allow_redirects=False
            )
            assert known.status_code != 401
            assert known.headers["x-frame-options"] == "deny"


def test_c94_by_default_nothing_listens_beyond_loopback() -> None:
    config = ExporterConfig()
    assert config.listen.startswith("127.0.0.1:")
    assert config.otlp.startswith("127.0.0.1:")


def at(name: str, address: str, **settings: Any) -> ExporterConfig:
    return ExporterConfig(**{name: address, **settings})


@pytest.mark.parametrize("name", ["listen", "otlp"])
def test_c94_an_address_open_to_other_machines_needs_credentials_or_insecure(
    tmp_path: Path, web_config: Path, name: str
) -> None:
    file_of = {"listen": "web_config", "otlp": "otlp_web_config"}[name]
    authority = Authority.found(tmp_path)
    tls = tls_section(authority.issue("server"))
    ours = {"client_ca_file": "ca.crt"}
    sections: dict[str, dict[str, Any]] = {
        "headers": {"http_server_config": {"headers": {"X-Frame-Options": "deny"}}},
        "tls": {"tls_server_config": tls},
        "maybe": {"tls_server_config": tls | ours | {"client_auth_type": "VerifyClientCertIfGiven"}},
    }
    for address in ("0.0.0.0:0", "[::]:0"):
        for section in sections.values():
            asks_nobody = write_web_config(tmp_path / "nobody.yml", **section)
            more: list[dict[str, Any]] = [{}, {file_of: asks_nobody}]
            for settings in more:
                with pytest.raises(ConfigError, match=f"^--{name} is open to other machines"):
                    open_guard(name, at(name, address, **settings))
        verified = tls | ours | {"client_auth_type": "RequireAndVerifyClientCert"}
        mutual = write_web_config(tmp_path / "mutual.yml", tls_server_config=verified)
        more = [{"insecure": True}, {file_of: web_config}, {file_of: mutual}]
        for settings in more:
            open_guard(name, at(name, address, **settings))
    for address in ("127.0.0.1:0", "127.9.9.9:0", "[::1]:0", "localhost:0"):
        open_guard(name, at(name, address))


def test_c94_a_wide_listener_that_asks_nobody_ends_it_with_2(tmp_path: Path) -> None:
    for check in ([], ["--check-config"]):
        wide = ("--listen", "127.0.0.1:0", "--otlp", "0.0.0.0:0")
        refused = run_exporter(*wide, "--data-dir", str(tmp_path / "data"), *check)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert refused.stderr.startswith("asyncrl exporter: --otlp is open to other machines")
        assert refused.stderr.count("\n") == 1
    assert not (tmp_path / "data").exists()


def test_scrapers_and_senders_have_different_credentials(
    start_exporter: StartExporter, web_config: Path, otlp_web_config: Path
) -> None:
    exporter = start_exporter("--web-config", str(web_config), "--otlp-web-config", str(otlp_web_config))
    assert get(f"{exporter.metrics}/metrics", auth=PASSWORD).status_code == 200
    assert get(f"{exporter.metrics}/metrics", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 401
    assert post(exporter.otlp, authorization=f"Bearer {TOKEN}").status_code == 200
    refused = post(exporter.otlp, authorization=BASIC)
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == 'Bearer realm="asyncrl exporter"'
    assert refused.content.startswith(b"\x08\x10\x12")  # a google.rpc.Status with code 16, UNAUTHENTICATED
    page = get(f"{exporter.metrics}/metrics", auth=PASSWORD).text
    assert 'asyncrl_exporter_refused_requests_total{listener="otlp",status="401"} 1.0' in page
    assert 'asyncrl_exporter_refused_requests_total{listener="listen",status="401"} 1.0' in page
    assert post(exporter.otlp, authorization=BASIC).status_code == 401
    _, said = exporter.stop()
    lines = [line.partition(" event=")[2] for line in said.splitlines() if "event=refused" in line]
    reason = 'peer=127.0.0.1 reason="401 credentials are missing or wrong"'
    assert lines == [f"refused listener={name} {reason}" for name in ("listen", "otlp")]


def test_c94_an_open_path_asks_nobody_and_opens_no_other(
    start_exporter: StartExporter, tmp_path: Path
) -> None:
    web_config = write_web_config(
        tmp_path / "web.yml", bearer_tokens={"trainers": token_digest(TOKEN)}, open_paths=["/metrics"]
    )
    exporter = start_exporter("--listen", "0.0.0.0:0", "--web-config", str(web_config))
    url = exporter.metrics.replace("0.0.0.0", "127.0.0.1")
    assert get(f"{url}/metrics").status_code == 200
    closed = [path for method, path in routes_of(tmp_path)["metrics"] if path not in OPEN | {"/metrics"}]
    assert "/api/v1/runs" in closed
    for path in [*closed, "/metrics/", "//metrics", "/metrics/../api/v1/runs", "/METRICS", "/v1/traces"]:
        assert get(url + path).status_code == 401, path
    assert get(f"{url}/api/v1/runs", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


WRONG = [
    "",
    "Basic",
    "Basic !!!",
    "Basic cHJvbWV0aGV1cw==",  # no colon
    "Basic cHJvbWV0aGV1czo=",  # no password
    "Basic bm9ib2R5OmNvcnJlY3QgaG9yc2U=",  # nobody
    "Basic " + "QUFB" * 60 + "Og==",
    "Basic \u00ff\u00ff",
    "Bearer",
    "Bearer correct horse",
    "Digest username=prometheus",
    "basic cHJvbWV0aGV1czpjb3JyZWN0IGhvcnNlAA==",  # the password and a NUL
]


def test_a_header_that_is_not_the_right_one_is_401(start_exporter: StartExporter, tmp_path: Path) -> None:
    hashed = bcrypt_hash(PASSWORD[1])
    tokens = {"t": token_digest(TOKEN)}
    web_config = write_web_config(
        tmp_path / "web.yml", basic_auth_users={"prometheus": hashed}, bearer_tokens=tokens
    )
    url = start_exporter("--web-config", str(web_config)).metrics + "/metrics"
    for authorization in WRONG:
        headers = {"authorization": authorization.encode("latin-1")}
        assert get(url, headers=headers).status_code == 401, authorization
    for authorization in (BASIC, BASIC.replace("Basic", "bASIC "), f"Bearer {TOKEN}"):
        assert get(url, headers={"authorization": authorization}).status_code == 200, authorization


def test_a_large_body_without_credentials_still_gets_its_401(
    start_exporter: StartExporter, otlp_web_config: Path
) -> None:
    exporter = start_exporter("--otlp-web-config", str(otlp_web_config))
    assert post(exporter.otlp, bytes(8_000_000)).status_code == 401


@pytest.mark.parametrize(
    "model", ["/home/PLANTED-HOME/models/tiny", "/home/PLANTED-HOME/tiny/", "C:\\Users\\PLANTED-HOME\\tiny"]
)
def test_c94_planted_private_text_is_nowhere_on_the_page_or_in_the_history(
    start_exporter: StartExporter, model: str
) -> None:
    planted = {
        "prompt": "Ignore all previous instructions, dear PLANTED-PROMPT",
        "enduser.id": "PLANTED-USER@example.org",
        "host.name": "PLANTED-HOST",
        "process.owner": "PLANTED-OWNER",
        "process.command_line": "python /home/PLANTED-HOME/train.py --token PLANTED-SECRET",
        "rl.model.name": model,
        "asyncrl.prompt": "PLANTED-PROMPT",
    }
    exporter = start_exporter("--grace", "0.2")
    trainer = Emitter(exporter.otlp, resource=planted)
    attributes = {name: value for name, value in planted.items() if name != "rl.model.name"}
    steps = [
        trainer.train_step(1, 1, values={"policy_loss": 1.0}, attributes=attributes),
        trainer.weight_sync(1, 1, attributes=attributes),
        trainer.span("rollout", 1, attributes | {"asyncrl.sample.id": "PLANTED-SAMPLE"}, numbered=False),
    ]
    assert trainer.post(*steps).status == 200
    gauge = trainer.gauge("asyncrl.queue.capacity", 8, {"user": "PLANTED-USER"})
    assert trainer.post_metrics(gauge).status == 200
    url = f"{exporter.metrics}/metrics"
    await_that(lambda: 'asyncrl_param_version{run="r"} 1.0' in get(url).text)
    everything = [get(url).text, get(f"{exporter.metrics}/api/v1/runs").text]
    everything.append(get(f"{exporter.metrics}/api/v1/runs/r/versions").text)
    everything.append(exporter.stop()[1])
    assert 'model="tiny"' in everything[0]
    assert [re.findall("PLANTED[-A-Z]*", text) for text in everything] == [[], [], [], []]


def test_secrets_are_not_in_the_log(start_exporter: StartExporter, web_config: Path) -> None:
    exporter = start_exporter("--web-config", str(web_config))
    get(f"{exporter.metrics}/metrics", auth=("prometheus", "WRONG-PASSWORD"))
    get(f"{exporter.metrics}/metrics", auth=PASSWORD)
    hashed = re.findall(r"\$2b\$\S+", web_config.read_text())[0]
    write_web_config(web_config, basic_auth_users={"prometheus": hashed[:-1]})
    await_that(
        lambda: (
            'web_config_reload_failed{listener="listen"} 1.0'
            in get(f"{exporter.metrics}/metrics", auth=PASSWORD).text
        )
    )
    _, said = exporter.stop()
    assert "not reloaded" in said
    for secret in ("WRONG-PASSWORD", PASSWORD[1], hashed[:-1]):
        assert secret not in said


def tls_section(server: tuple[Path, Path], **more: str) -> dict[str, str]:
    return {"cert_file": server[0].name, "key_file": server[1].name, **more}


def test_tls_with_a_certificate_that_ends_soon_and_is_rotated_under_way(
    start_exporter: StartExporter, tmp_path: Path
) -> None:
    old, soon = Authority.found(tmp_path, "old"), datetime.now(UTC).replace(microsecond=0) + timedelta(days=3)
    server = old.issue("server", end=soon)
    web_config = write_web_config(tmp_path / "web.yml", tls_server_config=tls_section(server))
    exporter = start_exporter("--web-config", str(web_config), ca_file=old.ca_file)
    url = f"{exporter.metrics}/metrics"
    assert url.startswith("https://")
    answer = get(url, verify=old.ca_file)
    assert answer.status_code == 200
    ends = re.findall(
        r"^(asyncrl_exporter_certificate_expiry_timestamp_seconds.*) (.*)", answer.text, re.MULTILINE
    )
    assert [(series, float(value)) for series, value in ends] == [
        ('asyncrl_exporter_certificate_expiry_timestamp_seconds{listener="listen"}', soon.timestamp())
    ]
    assert get(url.replace("https", "http")).status_code == 400
    new = Authority.found(tmp_path, "new")
    with pytest.raises(requests.exceptions.SSLError):
        get(url, verify=new.ca_file)
    new.issue("server")

    def rotated() -> bool:
        try:
            return get(url, verify=new.ca_file).status_code == 200
        except requests.exceptions.SSLError:
            return False

    await_that(rotated)
    fresh = re.search(r"certificate_expiry_timestamp_seconds\{.*\} (.*)", get(url, verify=new.ca_file).text)
    assert fresh
    assert float(fresh[1]) > soon.timestamp()
    _, said = exporter.stop()
    assert 'event="web config reloaded" listener=listen' in said
    (warning,) = [line for line in said.splitlines() if 'event="doubtful setting"' in line]
    assert f"server.crt ends at {soon:%Y-%m-%d %H:%M} UTC: renew it" in warning


def test_mutual_tls_knows_its_clients_and_forgets_an_authority(
    start_exporter: StartExporter, tmp_path: Path
) -> None:
    ours, theirs = Authority.found(tmp_path, "ours"), Authority.found(tmp_path, "theirs")
    server = ours.issue("server")
    section = tls_section(
        server, client_ca_file="ours.crt", client_auth_type="RequireAndVerifyClientCert", min_version="TLS13"
    )
    web_config = write_web_config(tmp_path / "web.yml", tls_server_config=section)
    friend, stranger = ours.issue("friend", "friend"), theirs.issue("stranger", "stranger")
    exporter = start_exporter("--otlp", "0.0.0.0:0", "--otlp-web-config", str(web_config))
    url = exporter.otlp.replace("0.0.0.0", "127.0.0.1") + "/v1/traces"

    def enters(certificate: tuple[Path, Path] | None) -> bool:
        try:
            answer = requests.post(
                url,
                headers={"content-type": PROTOBUF},
                verify=str(ours.ca_file),
                cert=certificate and (str(certificate[0]), str(certificate[1])),
                timeout=WATCHDOG_SECONDS,
            )
        except requests.ConnectionError:
            return False
        return answer.status_code == 200

    assert enters(friend)
    assert not enters(stranger)
    assert not enters(None)
    section["client_ca_file"] = "theirs.crt"
    write_web_config(web_config, tls_server_config=section)
    await_that(lambda: enters(stranger))
    assert not enters(friend)


def test_a_mistake_in_a_changed_file_leaves_the_old_one_in_force(
    start_exporter: StartExporter, web_config: Path
) -> None:
    exporter = start_exporter("--web-config", str(web_config))
    url = f"{exporter.metrics}/metrics"
    failed = 'asyncrl_exporter_web_config_reload_failed{listener="listen"}'
    assert f"{failed} 0.0" in get(url, auth=PASSWORD).text
    good = web_config.read_bytes()
    replace(web_config, b"basic_auth_users: {prometheus: secret}")
    await_that(lambda: f"{failed} 1.0" in get(url, auth=PASSWORD).text)
    replace(web_config, good)
    await_that(lambda: f"{failed} 0.0" in get(url, auth=PASSWORD).text)
    write_web_config(web_config, basic_auth_users={"prometheus": bcrypt_hash("another")})
    await_that(lambda: get(url, auth=("prometheus", "another")).status_code == 200)
    assert get(url, auth=PASSWORD).status_code == 401


def test_a_changed_file_never_opens_a_wide_listener(start_exporter: StartExporter, web_config: Path) -> None:
    exporter = start_exporter("--listen", "0.0.0.0:0", "--web-config", str(web_config))
    url = exporter.metrics.replace("0.0.0.0", "127.0.0.1") + "/metrics"
    replace(web_config, b"{}")
    failed = 'asyncrl_exporter_web_config_reload_failed{listener="listen"} 1.0'
    await_that(lambda: failed in get(url, auth=PASSWORD).text)
    assert get(url).status_code == 401
