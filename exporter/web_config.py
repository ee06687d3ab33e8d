"""The web config file of a listener: TLS, credentials and headers, in the format of Prometheus' exporter-toolkit.

    tls_server_config:
      cert_file: server.crt             # relative to the file itself
      key_file: server.key
      client_ca_file: clients.crt       # mutual TLS
      client_auth_type: RequireAndVerifyClientCert
      min_version: TLS12
    basic_auth_users:
      prometheus: $2y$10$...            # bcrypt: htpasswd -nBC 10 prometheus
    bearer_tokens:                      # ours: the toolkit has none
      trainers: 9f86d081884c7d65...     # SHA-256 of the token: printf %s "$TOKEN" | sha256sum
    open_paths: [/metrics]              # ours, too: asks nobody for these
    http_server_config:
      headers:
        X-Frame-Options: deny

A key that the toolkit knows and this exporter does not honour is refused: half a protection is none.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from ssl import TLSVersion, VerifyMode
from typing import Any, Final

from exporter.errors import ConfigError
from exporter.yaml_file import meant, read_yaml

VERSIONS: Final = {"TLS12": TLSVersion.TLSv1_2, "TLS13": TLSVersion.TLSv1_3}
CLIENT_AUTH_TYPES: Final = {
    "NoClientCert": VerifyMode.CERT_NONE,
    "VerifyClientCertIfGiven": VerifyMode.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": VerifyMode.CERT_REQUIRED,
}
HEADERS: Final = (
    "Content-Security-Policy",
    "Strict-Transport-Security",
    "X-Content-Type-Options",
    "X-Frame-Options",
    "X-XSS-Protection",
)
OPENABLE_PATHS: Final = ("/metrics",)
"""What `open_paths` may name: in the model of Prometheus metrics are no secret. Ingest and history always ask."""
_SECTIONS: Final = (
    "tls_server_config",
    "basic_auth_users",
    "bearer_tokens",
    "open_paths",
    "http_server_config",
)
_BCRYPT: Final = re.compile(r"\$2[abxy]\$(0[4-9]|1[0-6])\$[./A-Za-z0-9]{21}[.Oeu][./A-Za-z0-9]{31}")
"""Cost, salt (16 bytes leave 4 endings), hash. Cost 16 takes seconds for one check; beyond it nobody would wait."""
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True, slots=True)
class TlsConfig:
    """`tls_server_config`."""

    cert_file: Path
    """PEM: the certificate, then its intermediates."""
    key_file: Path
    """PEM: its private key, not encrypted."""
    client_ca_file: Path | None = None
    """PEM: who may sign the certificates of clients."""
    client_auth_type: str = "NoClientCert"
    """One of CLIENT_AUTH_TYPES."""
    min_version: str = "TLS12"
    """TLS12 or TLS13."""

    def __post_init__(self) -> None:
        for name, choices in (("min_version", VERSIONS), ("client_auth_type", CLIENT_AUTH_TYPES)):
            if getattr(self, name) not in choices:
                raise ConfigError(f"{name} must be one of {', '.join(choices)}, got {getattr(self, name)!r}")
        if (self.client_ca_file is None) != (self.client_auth_type == "NoClientCert"):
            raise ConfigError(
                "client_ca_file and a client_auth_type other than NoClientCert go together, "
                f"got {self.client_ca_file} and {self.client_auth_type}"
            )

    @property
    def files(self) -> tuple[Path, ...]:
        """All that are named."""
        named = (self.cert_file, self.key_file, self.client_ca_file)
        return tuple(file for file in named if file is not None)


@dataclass(frozen=True, kw_only=True, slots=True)
class WebConfig:
    """A web config file. The default, for a listener without one, asks for nothing."""

    tls: TlsConfig | None = None
    basic_auth_users: Mapping[str, str] = field(default_factory=dict)
    """Name -> bcrypt hash of the password."""
    bearer_tokens: Mapping[str, str] = field(default_factory=dict)
    """Name -> SHA-256 of the token, 64 hex digits."""
    open_paths: tuple[str, ...] = ()
    """Paths that ask for neither; of OPENABLE_PATHS."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Added to every answer; one of HEADERS."""

    def __post_init__(self) -> None:
        for user, hashed in self.basic_auth_users.items():
            if not _BCRYPT.fullmatch(hashed) or ":" in user:
                raise ConfigError(
                    f"basic_auth_users must map a name without ':' to a bcrypt hash of cost 4 to 16, see {user!r}"
                )
        for name, digest in self.bearer_tokens.items():
            if not _SHA256.fullmatch(digest):
                raise ConfigError(
                    f"bearer_tokens must map a name to the SHA-256 of its token, 64 digits of 0-9 and a-f, see {name!r}"
                )
        for path in self.open_paths:
            if path not in OPENABLE_PATHS:
                raise ConfigError(f"open_paths must be of {', '.join(OPENABLE_PATHS)}, got {path!r}")
        for name, value in self.headers.items():
            if name not in HEADERS or not (value.isascii() and value.isprintable()):
                raise ConfigError(
                    f"headers must be of {', '.join(HEADERS)} in plain ASCII, got {name!r}: {value!r}"
                )

    @property
    def asks_credentials(self) -> bool:
        """Whether a request needs a password or a token."""
        return bool(self.basic_auth_users or self.bearer_tokens)

    @property
    def authenticates(self) -> bool:
        """Whether nobody unknown gets through: by password, token or the certificate of the client."""
        verified = self.tls is not None and self.tls.client_auth_type == "RequireAndVerifyClientCert"
        return verified or self.asks_credentials


def load_web_config(path: Path) -> WebConfig:
    """Raises ConfigError, which names the file."""
    content = read_yaml(path, "web config file")
    try:
        sections = _mapping("the file", content, _SECTIONS)
        server = _mapping("http_server_config", sections.get("http_server_config"), ("http2", "headers"))
        if server.get("http2"):
            raise ConfigError("http2 must be false: this exporter speaks HTTP/1.1")
        tls = sections.get("tls_server_config")
        return WebConfig(
            tls=None if tls is None else _tls(tls, path.parent),
            basic_auth_users=_texts("basic_auth_users", sections.get("basic_auth_users")),
            bearer_tokens=_texts("bearer_tokens", sections.get("bearer_tokens")),
            open_paths=_paths(sections.get("open_paths")),
            headers=_texts("headers", server.get("headers")),
        )
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _tls(section: Any, directory: Path) -> TlsConfig:
    known = tuple(setting.name for setting in fields(TlsConfig))
    said: dict[str, Any] = dict(_texts("tls_server_config", _mapping("tls_server_config", section, known)))
    for name in ("cert_file", "key_file"):
        if not said.get(name):
            raise ConfigError(f"tls_server_config needs {name}")
    return TlsConfig(
        **{name: directory / value if name.endswith("_file") else value for name, value in said.items()}
    )


def _mapping(what: str, value: Any, known: tuple[str, ...]) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{what} must be a mapping, got {type(value).__name__}")
    for key in value:
        if key not in known:
            hint = meant(key, known)
            raise ConfigError(
                f"{what} has {key!r}, which is not supported; {hint}known are {', '.join(known)}"
            )
    return value


def _paths(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | None):
        raise ConfigError(f"open_paths must be a list, got {type(value).__name__}")
    return tuple(value or ())


def _texts(what: str, value: Any) -> dict[str, str]:
    """The values may be secrets: they are not quoted."""
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(
        isinstance(key, str) and isinstance(text, str) for key, text in value.items()
    ):
        raise ConfigError(f"{what} must map text to text")
    return value
