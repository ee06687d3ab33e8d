"""Web config files: what exporter-toolkit understands is understood or refused, and no mistake weakens anything."""

import asyncio
import time
from base64 import b64encode
from pathlib import Path
from typing import Any

import bcrypt
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from exporter.credentials import Credentials
from exporter.errors import ConfigError, Overloaded
from exporter.guard import Guard
from exporter.web_config import WebConfig, load_web_config
from tests.web_config import Authority, bcrypt_hash, token_digest, write_web_config

HASH = bcrypt_hash("secret")


def test_every_section_is_read_and_files_are_relative_to_it(tmp_path: Path) -> None:
    config = load_web_config(
        write_web_config(
            tmp_path / "web.yml",
            tls_server_config={
                "cert_file": "server.crt",
                "key_file": "/etc/server.key",
                "client_ca_file": "ca.crt",
                "client_auth_type": "RequireAndVerifyClientCert",
                "min_version": "TLS13",
            },
            basic_auth_users={"prometheus": HASH},
            bearer_tokens={"trainers": token_digest("t")},
            open_paths=["/metrics"],
            http_server_config={"http2": False, "headers": {"X-Frame-Options": "deny"}},
        )
    )
    assert config.tls is not None
    assert config.tls.files == (tmp_path / "server.crt", Path("/etc/server.key"), tmp_path / "ca.crt")
    assert config.basic_auth_users == {"prometheus": HASH}
    assert config.open_paths == ("/metrics",)
    assert config.headers == {"X-Frame-Options": "deny"}
    assert config.asks_credentials
    assert config.authenticates


@pytest.mark.parametrize("content", ["", "{}", "basic_auth_users: {}", "tls_server_config:"])
def test_a_file_that_says_nothing_asks_nobody(tmp_path: Path, content: str) -> None:
    file = tmp_path / "web.yml"
    file.write_text(content, encoding="utf-8")
    assert load_web_config(file) == WebConfig()


@pytest.mark.parametrize(
    ("sections", "complaint"),
    [
        (
            {"basic_auth": {}},
            "'basic_auth', which is not supported; is basic_auth_users meant? known are tls_server_config",
        ),
        (
            {"tls_server_config": {"certfile": "a"}},
            "'certfile', which is not supported; is cert_file meant? known are cert_file, key_file",
        ),
        ({"certificates": {}}, "'certificates', which is not supported; known are tls_server_config"),
        ({"rate_limit": {"interval": "1s"}}, "'rate_limit', which is not supported"),
        ({"basic_auth_users": {"a": "secret"}}, "to a bcrypt hash of cost 4 to 16, see 'a'"),
        ({"basic_auth_users": {"a": HASH.replace("$04$", "$31$")}}, "cost 4 to 16"),
        ({"basic_auth_users": {"a": HASH[:28] + "9" + HASH[29:]}}, "to a bcrypt hash"),
        ({"basic_auth_users": {"a:b": HASH}}, "a name without ':'"),
        ({"basic_auth_users": {"a": 7}}, "basic_auth_users must map text to text"),
        ({"bearer_tokens": {"a": "secret"}}, "SHA-256 of its token, 64 digits of 0-9 and a-f, see 'a'"),
        ({"bearer_tokens": ["secret"]}, "bearer_tokens must map text to text"),
        ({"open_paths": ["/metrics", "/v1/traces"]}, "open_paths must be of /metrics, got '/v1/traces'"),
        ({"open_paths": [["/metrics"]]}, "open_paths must be of /metrics"),
        ({"open_paths": "/metrics"}, "open_paths must be a list, got str"),
        ({"http_server_config": {"http2": True}}, "http2 must be false"),
        ({"http_server_config": {"headers": {"Server": "x"}}}, "headers must be of Content-Security-Policy"),
        ({"http_server_config": {"headers": {"X-Frame-Options": "a\r\nb: c"}}}, "in plain ASCII"),
        ({"tls_server_config": {"cert_file": "a"}}, "tls_server_config needs key_file"),
        (
            {"tls_server_config": {"cert_file": "a", "key_file": "b", "min_version": "TLS10"}},
            "min_version must",
        ),
        ({"tls_server_config": {"cipher_suites": []}}, "'cipher_suites', which is not supported"),
        (
            {"tls_server_config": {"cert_file": "a", "key_file": "b", "client_ca_file": "c"}},
            "client_ca_file and a client_auth_type other than NoClientCert go together",
        ),
        (
            {
                "tls_server_config": {
                    "cert_file": "a",
                    "key_file": "b",
                    "client_auth_type": "RequestClientCert",
                }
            },
            "client_auth_type must be one of",
        ),
    ],
)
def test_a_mistake_names_the_file_and_quotes_no_secret(
    tmp_path: Path, sections: dict[str, Any], complaint: str
) -> None:
    file = write_web_config(tmp_path / "web.yml", **sections)
    with pytest.raises(ConfigError) as caught:
        load_web_config(file)
    said = str(caught.value)
    assert said.startswith(f"{file}: ")
    assert complaint in said
    assert "\n" not in said
    assert "secret" not in said


@pytest.mark.parametrize("content", [b"a: [", b"\xff", b"- 1", None])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "web.yml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"web\.yml"):
        load_web_config(file)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["tls_server_config", "basic_auth_users", "bearer_tokens", "http_server_config"]
                )
                | st.sampled_from(["cert_file", "key_file", "headers", "http2", "min_version"])
                | st.text(max_size=4),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_any_yaml_is_a_config_or_one_line(tmp_path_factory: pytest.TempPathFactory, content: Any) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yml"
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    said = ""
    try:
        load_web_config(file)
    except ConfigError as error:
        said = str(error)
    assert "\n" not in said


def test_certificates_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    certificate, key = Authority.found(tmp_path).issue("server")
    other_key = Authority.found(tmp_path, "other").issue("other")[1]
    for cert_file, key_file in ((certificate, other_key), (key, key), (tmp_path / "none.crt", key)):
        files = {"cert_file": str(cert_file), "key_file": str(key_file)}
        web_config = write_web_config(tmp_path / "web.yml", tls_server_config=files)
        with pytest.raises(ConfigError, match="cannot use the certificates in") as caught:
            Guard("listen", web_config, exposed=False)
    assert str(caught.value).endswith("none.crt: No such file or directory")


def test_files_that_come_later_than_the_config_that_names_them_are_seen(tmp_path: Path) -> None:
    authority = Authority.found(tmp_path)
    authority.issue("old")
    web_config = tmp_path / "web.yml"
    write_web_config(web_config, tls_server_config={"cert_file": "old.crt", "key_file": "old.key"})
    guard = Guard("listen", web_config, exposed=False)
    write_web_config(web_config, tls_server_config={"cert_file": "new.crt", "key_file": "new.key"})
    guard.reload_if_changed()
    assert guard.reload_failed
    assert guard.config.tls is not None
    assert guard.config.tls.cert_file.name == "old.crt"
    authority.issue("new")
    guard.reload_if_changed()
    assert not guard.reload_failed
    assert guard.config.tls.cert_file.name == "new.crt"


def header(name: str, password: str) -> str:
    return "Basic " + b64encode(f"{name}:{password}".encode()).decode()


def test_a_name_that_is_not_known_has_no_password() -> None:
    config = WebConfig(basic_auth_users={"u": HASH})
    credentials = Credentials()
    for name in ("", "nobody", "U", "u "):
        for _ in range(2):
            assert not asyncio.run(credentials.admit(config, header(name, "secret")))
    assert asyncio.run(credentials.admit(config, header("u", "secret")))
    credentials.close()


def test_a_password_is_hashed_once_and_its_verdict_remembered() -> None:
    slow = bcrypt.hashpw(b"right", bcrypt.gensalt(10)).decode()
    config = WebConfig(basic_auth_users={"u": slow})
    credentials = Credentials()

    async def ask(password: str, times: int) -> float:
        started = time.thread_time() + time.process_time()
        answers = await asyncio.gather(
            *(credentials.admit(config, header("u", password)) for _ in range(times))
        )
        assert set(answers) == {password == "right"}
        return time.thread_time() + time.process_time() - started

    async def scenario() -> None:
        for password in ("right", "wrong"):
            first = await ask(password, 100)  # at the same time: one check
            again = await ask(password, 100)
            assert again < first

    asyncio.run(scenario())
    credentials.close()


def test_a_flood_of_wrong_passwords_is_bounded_and_a_known_one_passes() -> None:
    config = WebConfig(basic_auth_users={"u": bcrypt.hashpw(b"right", bcrypt.gensalt(8)).decode()})
    credentials = Credentials()

    async def scenario() -> None:
        assert await credentials.admit(config, header("u", "right"))
        flood = [
            asyncio.ensure_future(credentials.admit(config, header("u", f"{number}")))
            for number in range(100)
        ]
        await asyncio.sleep(0)
        assert await credentials.admit(config, header("u", "right"))
        answers = await asyncio.gather(*flood, return_exceptions=True)
        assert [answer for answer in answers if answer is not False] == [
            answer for answer in answers if isinstance(answer, Overloaded)
        ]
        assert answers.count(False) == 64

    asyncio.run(scenario())
    credentials.close()


@given(st.text(max_size=200))
def test_no_header_is_an_error(authorization: str) -> None:
    config = WebConfig(basic_auth_users={"u": HASH}, bearer_tokens={"t": token_digest("t")})
    credentials = Credentials()
    assert asyncio.run(credentials.admit(config, authorization)) is False
    credentials.close()
