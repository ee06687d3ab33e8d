"""What one listener asks of its clients, and the web config file that says so, followed as it changes."""

import logging
import os
import ssl
from datetime import datetime
from pathlib import Path
from typing import Final

from exporter import event_log
from exporter.certificate import certificate_doubt, certificate_end
from exporter.errors import ConfigError
from exporter.handshake import ServerContext
from exporter.refusals import Refusals
from exporter.web_config import CLIENT_AUTH_TYPES, VERSIONS, TlsConfig, WebConfig, load_web_config

log = logging.getLogger(__name__)

RELOAD_SECONDS: Final = 1.0
"""How often the files are looked at: a few stat calls."""

Stamps = dict[Path, tuple[int, int, int] | None]
"""Modification time, inode and size of each file, so that a Kubernetes secret, swapped by a link, shows too."""


class Guard:
    """The web config of the listener `name` as it is in force; without a file nothing is asked of anybody."""

    def __init__(self, name: str, path: Path | None, *, exposed: bool) -> None:
        """`exposed`: other machines can connect, so that somebody has to be asked. Raises ConfigError."""
        self.name = name
        self.reload_failed = False
        """Whether the files as they are now were refused; then what was read before stays in force."""
        self.certificate_ends: datetime | None = None
        """That of the listener's own; None in plain HTTP."""
        self.refusals = Refusals(name)
        """Who was turned away at the door."""
        self._path = path
        self._exposed = exposed
        self._stamps: Stamps = {}
        """Of the files that were read last, or could not be."""
        self.config, context = self._read()
        self._read_certificate()
        self.tls: ServerContext | None = None
        """What the listener is started with; None for plain HTTP."""
        if context is not None:
            self.tls = ServerContext()
            _hand_over(self.tls, context)

    def reload_if_changed(self) -> None:
        """Reads the files again if one of them is not the same. A mistake in them is said once, in the log."""
        if all(_stamp(file) == stamp for file, stamp in self._stamps.items()):
            return
        try:
            config, context = self._read()
            if (context is None) != (self.tls is None):
                raise ConfigError(f"{self._path}: tls_server_config comes and goes with a restart only")
        except ConfigError as error:
            self.reload_failed = True
            event_log.say(
                log, "web config not reloaded", level=logging.ERROR, listener=self.name, reason=error
            )
            return
        self.config = config
        if self.tls is not None and context is not None:
            _hand_over(self.tls, context)
        self.reload_failed = False
        self._read_certificate()
        event_log.say(log, "web config reloaded", listener=self.name, file=self._path)
        if self.doubt:
            event_log.say(log, "doubtful setting", level=logging.WARNING, reason=self.doubt)

    @property
    def doubt(self) -> str:
        """What is wrong with a certificate that can be used; empty where nothing is."""
        tls = self.config.tls
        doubt = "" if tls is None else certificate_doubt(tls.cert_file, self.certificate_ends)
        return f"{self.name}: {doubt}" if doubt else ""

    def _read_certificate(self) -> None:
        tls = self.config.tls
        self.certificate_ends = None if tls is None else certificate_end(tls.cert_file)

    def _read(self) -> tuple[WebConfig, ssl.SSLContext | None]:
        # Each file is stamped before it is read: a change in between is seen at the next look.
        self._stamps = {} if self._path is None else {self._path: _stamp(self._path)}
        config = WebConfig() if self._path is None else load_web_config(self._path)
        if self._exposed and not config.authenticates:
            raise ConfigError(
                f"--{self.name} is open to other machines and asks nobody who they are: give it a web config file "
                "with credentials, a loopback address, or say --insecure where something else guards it"
            )
        if config.tls is None:
            return config, None
        self._stamps |= {file: _stamp(file) for file in config.tls.files}
        return config, _context(config.tls)


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size


def _hand_over(started: ssl.SSLContext, fresh: ssl.SSLContext) -> None:
    """Handshakes of a listener that was started with one context take place in another from now on: unlike a
    certificate, client authorities cannot be taken out of a context. What OpenSSL has settled by then is copied."""
    started.minimum_version = fresh.minimum_version
    started.verify_mode = fresh.verify_mode

    def move(connection: ssl.SSLObject, server_name: str | None, context: ssl.SSLContext) -> None:
        connection.context = fresh

    started.sni_callback = move  # called for each handshake, also of clients that name no server


def _context(config: TlsConfig) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = VERSIONS[config.min_version]
    context.verify_mode = CLIENT_AUTH_TYPES[config.client_auth_type]
    for file in config.files:
        try:
            file.open("rb").close()
        except OSError as error:
            raise ConfigError(f"cannot use the certificates in {file}: {error.strerror}") from error
    try:
        # With a password given, even an empty one, OpenSSL does not ask for one on the terminal.
        context.load_cert_chain(config.cert_file, config.key_file, password="")
        if config.client_ca_file is not None:
            context.load_verify_locations(config.client_ca_file)
    except OSError as error:  # ssl.SSLError is one
        files = ", ".join(map(str, config.files))
        raise ConfigError(f"cannot use the certificates in {files}: {error}") from error
    return context
