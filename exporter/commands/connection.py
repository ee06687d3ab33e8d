"""How a command reaches a running exporter: its two addresses, and the credentials for them."""

import argparse
import http.client
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Self
from urllib.parse import urlsplit

import requests

from exporter import otlp
from exporter.errors import ConfigError, Unreachable

DEFAULT_URL: Final = "http://127.0.0.1:9810"
_TIMEOUT_SECONDS = 30.0
_SHOWN_CHARACTERS = 300
_OTLP_PORT = 4318
_WRONG_NAME: Final = (62, 64)
"""OpenSSL's codes for a certificate of another host, and of another address."""


class _Hints(NamedTuple):
    """What to try: where nobody, or somebody else, answers; and where credentials are wanted."""

    address: str
    credentials: str


_SCRAPE: Final = _Hints(
    "is `asyncrl exporter` running, and is this its --listen address?",
    "give --user and --password-file, or --token-file",
)
_OTLP: Final = _Hints(
    "is this its --otlp address, and not that of a Collector?",
    "give --otlp-token-file, or --user and --password-file",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Connection:
    """`url` is the listener of /metrics and the history, `otlp_url` that of the telemetry."""

    url: str
    otlp_url: str
    session: requests.Session = field(default_factory=requests.Session)
    otlp_session: requests.Session = field(default_factory=requests.Session)

    @classmethod
    def from_flags(cls, flags: argparse.Namespace) -> Self:
        """What `add_flags` read. Raises ConfigError: flags that do not belong together, a file that cannot be used."""
        _check(flags)
        url = _base_url("--url", flags.url or DEFAULT_URL)
        password, token, otlp_token = (
            _read(path) for path in (flags.password_file, flags.token_file, flags.otlp_token_file)
        )
        return cls(
            url=url,
            otlp_url=_base_url("--otlp-url", flags.otlp_url or _beside(url)),
            session=_session(flags, password, token),
            otlp_session=_session(flags, password, otlp_token or token),
        )

    def get(self, path: str, query: Mapping[str, str | int | None] | None = None) -> requests.Response:
        """GET of the scrape listener. Raises Unreachable, also for an answer that is an error."""
        return _checked(self.session, _SCRAPE, "GET", self.url + path, params=dict(query or {}))

    def post_spans(self, body: bytes) -> requests.Response:
        """POST of an OTLP request. Raises Unreachable, also for an answer that is an error."""
        headers = {"content-type": otlp.PROTOBUF}
        url = f"{self.otlp_url}/v1/traces"
        return _checked(self.otlp_session, _OTLP, "POST", url, data=body, headers=headers)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of a command that speaks to a running exporter."""
    group = parser.add_argument_group("the exporter")
    group.add_argument("--url", help=f"its --listen address (default: {DEFAULT_URL})")
    group.add_argument(
        "--otlp-url", metavar="URL", help=f"its --otlp address (default: port {_OTLP_PORT} of --url's host)"
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


def _check(flags: argparse.Namespace) -> None:
    for one, other in (("user", "password_file"), ("cert_file", "key_file")):
        given, missing = (one, other) if getattr(flags, one) is not None else (other, one)
        if (getattr(flags, given) is None) != (getattr(flags, missing) is None):
            raise ConfigError(f"{_flag(given)} needs {_flag(missing)} beside it")
    if flags.user is not None and flags.token_file is not None:
        raise ConfigError(
            "--user and --token-file are for the same listener: give one; --otlp-token-file is for --otlp-url"
        )
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if flags.ca_file is not None:
            trust.load_verify_locations(flags.ca_file)
    except OSError as error:  # SSLError is one
        raise ConfigError(f"--ca-file {flags.ca_file} holds no certificates: {_reason(error)}") from error
    try:
        if flags.cert_file is not None:
            trust.load_cert_chain(flags.cert_file, flags.key_file)
    except OSError as error:
        raise ConfigError(
            f"--cert-file {flags.cert_file} and --key-file {flags.key_file} are no certificate with its key: "
            f"{_reason(error)}"
        ) from error


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _base_url(flag: str, text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise ConfigError(f"{flag} must begin with http:// or https://, got {text!r}")
    return text.rstrip("/")


def _beside(url: str) -> str:
    """The OTLP listener where nobody says another: on the same host, with TLS if the other has it."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2].removesuffix(f":{parts.port}")
    return f"{parts.scheme}://{host}:{_OTLP_PORT}"


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
        session.cert = (str(flags.cert_file), str(flags.key_file))
    return session


def _read(path: Path | None) -> str:
    try:
        return path.read_text(encoding="utf-8").strip() if path is not None else ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error


def _checked(
    session: requests.Session, hints: _Hints, method: str, url: str, **request: Any
) -> requests.Response:
    try:
        answer = session.request(method, url, timeout=_TIMEOUT_SECONDS, **request)
    except (requests.RequestException, OSError, ValueError) as error:
        cause = _cause(error)
        hint = _tls_hint(cause, url) or hints.address
        raise Unreachable(f"nobody answers at {url}: {_reason(cause)}; {hint}") from error
    if not answer.ok:
        tried = {401: hints.credentials, 404: hints.address, 405: hints.address}.get(answer.status_code)
        message = f"{url} answered {answer.status_code}: {_message(answer)[:_SHOWN_CHARACTERS]}"
        raise Unreachable(f"{message}; {tried}" if tried else message)
    return answer


def _tls_hint(cause: BaseException, url: str) -> str:
    """What to try where it is TLS that failed; empty where it is not."""
    match cause:
        case ssl.SSLCertVerificationError():
            if cause.verify_code in _WRONG_NAME:
                return "name it as its certificate does"
            return "give the certificate of its authority with --ca-file"
        case ssl.SSLError() if "ALERT" not in (cause.reason or "EOF ALERT"):
            return "is this http://?"
        case ssl.SSLError():
            return "does it want a client certificate (--cert-file, --key-file)?"
        case http.client.RemoteDisconnected() | ConnectionResetError():
            return "is this https://?" if url.startswith("http:") else "does it want a client certificate?"
    return ""


def _message(answer: requests.Response) -> str:
    """What the answer says, in one line."""
    protobuf = answer.headers.get("content-type") == otlp.PROTOBUF
    return " ".join((otlp.failure_message(answer.content) if protobuf else answer.text).split())


def _cause(error: BaseException) -> BaseException:
    """The innermost one: requests wraps what urllib3 tried, and that, if only as an argument, what the system said."""
    while inner := error.__cause__ or error.__context__:
        error = inner
    return next((part for part in error.args if isinstance(part, BaseException)), error)


def _reason(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {error.verify_message}"
    return getattr(error, "strerror", None) or str(error)
