"""How a command reaches a running exporter: its two addresses, and the credentials for them."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import requests

from exporter import otlp
from exporter.errors import ConfigError, Unreachable

_TIMEOUT_SECONDS = 30.0
_SHOWN_CHARACTERS = 300


@dataclass(frozen=True, kw_only=True, slots=True)
class Connection:
    """`url` is the listener of /metrics and the history, `otlp_url` that of the telemetry."""

    url: str
    otlp_url: str
    session: requests.Session = field(default_factory=requests.Session)
    otlp_session: requests.Session = field(default_factory=requests.Session)

    @classmethod
    def from_flags(cls, flags: argparse.Namespace) -> Self:
        """What `add_flags` read. Raises ConfigError where a file of credentials cannot be read."""
        password, token, otlp_token = (
            _read(path) for path in (flags.password_file, flags.token_file, flags.otlp_token_file)
        )
        return cls(
            url=flags.url.rstrip("/"),
            otlp_url=flags.otlp_url.rstrip("/"),
            session=_session(flags, password, token),
            otlp_session=_session(flags, password, otlp_token or token),
        )

    def get(self, path: str, query: Mapping[str, str | int | None] | None = None) -> requests.Response:
        """GET of the scrape listener. Raises Unreachable, also for an answer that is an error."""
        return _checked(self.session, "GET", self.url + path, params=dict(query or {}))

    def post_spans(self, body: bytes) -> requests.Response:
        """POST of an OTLP request. Raises Unreachable, also for an answer that is an error."""
        headers = {"content-type": otlp.PROTOBUF}
        return _checked(self.otlp_session, "POST", f"{self.otlp_url}/v1/traces", data=body, headers=headers)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of a command that speaks to a running exporter."""

    group = parser.add_argument_group("the exporter")
    group.add_argument(
        "--url", default="http://127.0.0.1:9810", help="its --listen address (default: %(default)s)"
    )
    group.add_argument(
        "--otlp-url", default="http://127.0.0.1:4318", help="its --otlp address (default: %(default)s)"
    )
    group.add_argument("--user", help="user name; the password is in --password-file")
    for flag, text in (
        ("--password-file", "file with the password of --user"),
        ("--token-file", "file with a bearer token"),
        ("--otlp-token-file", "the same for --otlp-url, where it takes another token"),
        ("--ca-file", "certificates to trust instead of the system's"),
        ("--cert-file", "client certificate, with its key in --key-file"),
        ("--key-file", "key of the client certificate"),
    ):
        group.add_argument(flag, metavar="FILE", type=Path, help=text)


def _session(flags: argparse.Namespace, password: str, token: str) -> requests.Session:
    session = requests.Session()
    session.trust_env = False  # no proxy and no ~/.netrc: it is the exporter that is asked
    if token:
        session.headers["authorization"] = f"Bearer {token}"
    elif flags.user is not None:
        session.auth = (flags.user, password)
    if flags.ca_file is not None:
        session.verify = str(flags.ca_file)
    if flags.cert_file is not None:
        session.cert = (str(flags.cert_file), str(flags.key_file or flags.cert_file))
    return session


def _read(path: Path | None) -> str:
    try:
        return path.read_text(encoding="utf-8").strip() if path is not None else ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error


def _checked(session: requests.Session, method: str, url: str, **request: Any) -> requests.Response:
    try:
        answer = session.request(method, url, timeout=_TIMEOUT_SECONDS, **request)
    except (requests.RequestException, OSError, ValueError) as error:
        raise Unreachable(f"nobody answers at {url}: {_cause(error)}") from error
    if not answer.ok:
        raise Unreachable(f"{url} answered {answer.status_code}: {_message(answer)[:_SHOWN_CHARACTERS]}")
    return answer


def _message(answer: requests.Response) -> str:
    """What the answer says, in one line."""
    protobuf = answer.headers.get("content-type") == otlp.PROTOBUF
    return " ".join((otlp.failure_message(answer.content) if protobuf else answer.text).split())


def _cause(error: BaseException) -> str:
    """The innermost reason: requests wraps what urllib3 tried, and that what the system said."""
    while inner := error.__cause__ or error.__context__:
        error = inner
    return getattr(error, "strerror", None) or str(error)
