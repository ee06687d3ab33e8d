"""The files that telemetry shows and trusts, tried before anything is sent: a mistake is cheapest at the start."""

import ssl
from collections.abc import Callable
from pathlib import Path

from runtime.telemetry.config import TelemetryConfig


def check_credentials(config: TelemetryConfig) -> None:
    """Raises ValueError, whose one line starts with the key, if a file cannot be read or used on this machine."""
    if config.token_file:
        _check("token_file", config.token_file, lambda: _require_token(config.token_file))
    tls = ssl.create_default_context()
    if config.ca_file:
        _check("ca_file", config.ca_file, lambda: tls.load_verify_locations(config.ca_file))
    if config.client_cert_file:
        for key in ("client_cert_file", "client_key_file"):
            path = Path(getattr(config, key))
            _check(key, str(path), path.read_bytes)
        # A passphrase of its own, or OpenSSL would ask the terminal for that of an encrypted key.
        _check(
            "client_cert_file",
            f"{config.client_cert_file} with {config.client_key_file}",
            lambda: tls.load_cert_chain(config.client_cert_file, config.client_key_file, password=""),
        )


def _require_token(path: str) -> None:
    token = Path(path).read_text(encoding="ascii").strip()
    if not token or not token.isprintable():
        raise ValueError("it must hold one line")


def _check(key: str, path: str, attempt: Callable[[], object]) -> None:
    accepted = "a file with a token" if key == "token_file" else "a PEM file"
    try:
        attempt()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ValueError(f"{key} must be {accepted} that can be used here, got {path!r}: {reason}") from error
