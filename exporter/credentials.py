"""Checks the Authorization header of requests: passwords against bcrypt hashes, tokens against SHA-256.

One check of a password takes about 0.1 s on purpose. It runs in one thread beside the event loop, its verdict is
remembered, and requests that ask the same meanwhile share it: scrapes and senders pay once.
"""

import asyncio
import base64
import binascii
import hmac
import os
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b, sha256
from typing import Final

import bcrypt

from exporter.errors import Overloaded
from exporter.web_config import WebConfig

_MOST_WAITING: Final = 64
"""Passwords that wait for their check; who comes next is told to come again."""
_MOST_REMEMBERED: Final = 1024


class Credentials:
    """Answers for one listener. Keeps keyed digests of what it has seen, no password."""

    def __init__(self) -> None:
        self._checker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="bcrypt")
        self._key = os.urandom(32)
        self._pending: dict[bytes, asyncio.Future[bool]] = {}
        # Apart, so that a flood of wrong passwords pushes no right one out.
        self._right = OrderedDict[bytes, None]()
        self._wrong = OrderedDict[bytes, None]()

    async def admit(self, config: WebConfig, authorization: str) -> bool:
        """Whether the header names a user or token of `config`. Raises Overloaded."""
        scheme, _, secret = authorization.strip().partition(" ")
        if scheme.lower() == "bearer":
            digest = sha256(secret.strip().encode()).hexdigest()
            matches = [hmac.compare_digest(digest, known) for known in config.bearer_tokens.values()]
            return any(matches)
        if scheme.lower() == "basic" and config.basic_auth_users:
            return await self._admit_user(config.basic_auth_users, secret.strip())
        return False

    def close(self) -> None:
        """Ends the checking thread once it is idle."""
        self._checker.shutdown()

    async def _admit_user(self, users: Mapping[str, str], secret: str) -> bool:
        try:
            said = base64.b64decode(secret, validate=True)
        except (binascii.Error, ValueError):
            return False
        name, _, password = said.partition(b":")
        known_hash = users.get(name.decode("utf-8", "replace"))
        # A name that is not known costs the same check, so that the time of an answer does not tell which names are.
        hashed = known_hash or next(iter(users.values()))
        if b"\0" in said or len(password) > 72:  # bcrypt takes no such password, so nobody has one
            return False
        key = blake2b(b"\0".join((hashed.encode(), name, password)), key=self._key).digest()
        for known, verdict in ((self._right, True), (self._wrong, False)):
            if key in known:
                known.move_to_end(key)
                return verdict
        verdict = await asyncio.shield(self._check(key, password, hashed)) and known_hash is not None
        _remember(self._right if verdict else self._wrong, key)
        return verdict

    def _check(self, key: bytes, password: bytes, hashed: str) -> "asyncio.Future[bool]":
        pending = self._pending.get(key)
        if pending is None:
            if len(self._pending) >= _MOST_WAITING:
                raise Overloaded("too many passwords wait for their check")
            loop = asyncio.get_running_loop()
            pending = loop.run_in_executor(self._checker, bcrypt.checkpw, password, hashed.encode())
            self._pending[key] = pending
            pending.add_done_callback(lambda _: self._pending.pop(key))
        return pending


def _remember(known: OrderedDict[bytes, None], key: bytes) -> None:
    known[key] = None
    if len(known) > _MOST_REMEMBERED:
        known.popitem(last=False)
