"""The two listeners: their sockets, and what they ask of who connects."""

import errno
import ipaddress
import json
import os
import resource
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Self

from prometheus_client.core import Metric

from exporter import catalog
from exporter.config import ExporterConfig, split_address
from exporter.connections import BACKLOG, Listener
from exporter.errors import ConfigError
from exporter.guard import Guard
from exporter.refusals import Refusals
from exporter.self_metrics import metric

_OTHER_FILES: Final = 128
"""Files beside the connections: the journal, and what is accepted while others are being closed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entrance:
    """A listening socket and its guard."""

    socket: Listener
    guard: Guard

    @classmethod
    def open(cls, name: str, config: ExporterConfig) -> Self:
        """Raises ConfigError: what `guard` refuses, or an address in use or not ours."""
        guard = open_guard(name, config)
        address = getattr(config, name)
        try:
            listener = Listener.bind_to(*split_address(name, address), most=config.max_connections)
        except OSError as error:
            raise _cannot_listen(name, address, error) from error
        if guard.tls is not None:
            guard.tls.on_failure = partial(_turn_away, listener, guard.refusals)
        return cls(socket=listener, guard=guard)

    @property
    def url(self) -> str:
        """Its base URL."""
        host, port = self.socket.getsockname()[:2]
        scheme = "http" if self.guard.tls is None else "https"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Listeners:
    """Both, bound and listening before anything else starts: connections wait in the backlog."""

    scrape: Entrance
    otlp: Entrance

    @classmethod
    def bind(cls, config: ExporterConfig) -> Self:
        """Raises ConfigError."""
        _allow_files(2 * (config.max_connections + BACKLOG) + _OTHER_FILES)
        scrape = Entrance.open("listen", config)
        try:
            otlp = Entrance.open("otlp", config)
        except ConfigError:
            scrape.socket.close()
            raise
        return cls(scrape=scrape, otlp=otlp)

    def close(self) -> None:
        """For a start that failed; who serves them closes them itself."""
        self.scrape.socket.close()
        self.otlp.socket.close()

    @property
    def urls(self) -> dict[str, str]:
        """Where the two can be reached: `metrics` and `otlp`."""
        return {"metrics": self.scrape.url, "otlp": self.otlp.url}

    def write_urls(self, path: Path) -> None:
        """Whoever waits for the file never sees half of it. Raises ConfigError."""
        part = path.with_name(path.name + ".part")
        try:
            part.write_text(json.dumps(self.urls) + "\n", encoding="utf-8")
            os.replace(part, path)
        except OSError as error:
            raise ConfigError(f"cannot write the endpoints file {path}: {error.strerror}") from error

    def families(self) -> Iterator[Metric]:
        """How the two are doing, for the exporter's own part of the page."""
        entrances = [
            (each.guard.name, each.guard, each.socket.connections) for each in (self.scrape, self.otlp)
        ]
        yield metric(catalog.CONNECTIONS, {(name,): len(connections) for name, _, connections in entrances})
        yield metric(
            catalog.CONNECTIONS_ENDED,
            {
                (name, reason): connections.ended[reason]
                for name, _, connections in entrances
                for reason in ("crowded", "stalled")
            },
        )
        yield metric(
            catalog.REFUSED_REQUESTS,
            {
                (name, str(status)): guard.refusals.requests[status]
                for name, guard, _ in entrances
                for status in (401, 429)
            },
        )
        yield metric(
            catalog.HANDSHAKES_FAILED, {(name,): guard.refusals.handshakes for name, guard, _ in entrances}
        )
        yield metric(
            catalog.WEB_CONFIG_RELOAD_FAILED, {(name,): guard.reload_failed for name, guard, _ in entrances}
        )
        ends = {(name,): guard.certificate_ends for name, guard, _ in entrances}
        yield metric(
            catalog.CERTIFICATE_EXPIRY,
            {labels: end.timestamp() for labels, end in ends.items() if end is not None},
        )


def open_guard(name: str, config: ExporterConfig) -> Guard:
    """The guard of the listener `listen` or `otlp`. Raises ConfigError: a web config that cannot be, or an
    address that is open to other machines with nobody asked who they are."""
    path = config.web_config if name == "listen" else config.otlp_web_config
    return Guard(name, path, exposed=not config.insecure and not is_loopback(name, config))


def is_loopback(name: str, config: ExporterConfig) -> bool:
    """Whether only this machine reaches the listener. Raises ConfigError for a name that nobody knows."""
    address = getattr(config, name)
    try:
        where = socket.getaddrinfo(*split_address(name, address), type=socket.SOCK_STREAM)[0][4]
    except OSError as error:
        raise _cannot_listen(name, address, error) from error
    return ipaddress.ip_address(str(where[0]).partition("%")[0]).is_loopback


def _turn_away(listener: Listener, refusals: Refusals, error: ssl.SSLError, answer: bytes) -> None:
    connection = listener.connections.newest  # it has moved the bytes that failed just now
    if connection is None:
        return
    refusals.add_handshake(connection.peer, error)
    with suppress(OSError):  # the client was faster
        connection.send(answer)


def _cannot_listen(name: str, address: str, error: OSError) -> ConfigError:
    advice = "; free the port or choose another" if error.errno == errno.EADDRINUSE else ""
    return ConfigError(f"cannot listen on {address} (--{name}): {error.strerror}{advice}")


def _allow_files(count: int) -> None:
    """Lets this process open `count` files, if it may. Raises ConfigError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= count:
        return
    if hard != resource.RLIM_INFINITY and hard < count:
        raise ConfigError(
            f"max_connections needs {count} open files, {hard} are allowed; lower it or raise ulimit -n"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
