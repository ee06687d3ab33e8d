"""Whom one listener turned away: counted, said in the log once a minute and reason."""

import logging
import ssl
from collections import Counter
from typing import Final

from exporter.errors import RequestError
from exporter.event_log import SparseLog

log = logging.getLogger(__name__)

_HANDSHAKES: Final = {
    "HTTP_REQUEST": "plain HTTP where TLS is spoken",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "no client certificate",
    "CERTIFICATE_VERIFY_FAILED": "client certificate of another authority, or expired",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust our certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client does not take our certificate",
}
"""OpenSSL's reasons in words, where its own are none."""


class Refusals:
    """For one thread, that of the event loop."""

    def __init__(self, listener: str) -> None:
        self.requests = Counter[int]()
        """By HTTP status."""
        self.handshakes = 0
        self._listener = listener
        self._log = SparseLog(log)

    def add_request(self, peer: str, error: RequestError) -> None:
        """One that was answered with `error`."""
        self.requests[error.status] += 1
        self._say(peer, f"{error.status} {error}")

    def add_handshake(self, peer: str, error: ssl.SSLError) -> None:
        """One of TLS that failed."""
        self.handshakes += 1
        reason = error.reason or "UNKNOWN"
        self._say(peer, _HANDSHAKES.get(reason, reason.replace("_", " ").lower()))

    def _say(self, peer: str, reason: str) -> None:
        self._log.say("refused", self._listener, reason, listener=self._listener, peer=peer, reason=reason)
