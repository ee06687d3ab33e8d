"""Stands before an ASGI application and asks who comes: what is not let through here reaches no route.

request --> credentials? --no--> 401      every path, known or not, but the probes and `open_paths`
                |
                +--> the application --> headers of the web config --> client
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from exporter.credentials import Credentials
from exporter.errors import RequestError, Unauthenticated
from exporter.guard import Guard

OPEN_PATHS: Final = frozenset({"/healthz", "/readyz"})
"""Probes carry no credentials; their answers are empty."""
_DRAIN_SECONDS: Final = 30.0
"""A body that comes without credentials is read to its end, unbuffered, so that its sender sees the answer."""


class Access:
    """`app` behind `guard`. `refuse` writes an answer other than 200 to a request of this Content-Type."""

    def __init__(
        self, app: ASGIApp, guard: Guard, *, refuse: Callable[[RequestError, str], Response]
    ) -> None:
        self._app = app
        self._guard = guard
        self._refuse = refuse
        self._credentials = Credentials()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, self._with_headers(send))
        else:  # a websocket: no route takes one
            await send({"type": "websocket.close"})

    def close(self) -> None:
        """Ends the checking thread once it is idle."""
        self._credentials.close()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        try:
            await self._admit(scope["path"], headers.get("authorization", ""))
        except RequestError as error:
            self._guard.refusals.add_request((scope.get("client") or ("",))[0], error)
            await _drain(receive)
            response = self._refuse(error, headers.get("content-type", ""))
            for challenge in self._challenges() if isinstance(error, Unauthenticated) else ():
                response.headers.append("www-authenticate", challenge)
            await response(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _admit(self, path: str, authorization: str) -> None:
        config = self._guard.config
        if path in OPEN_PATHS or path in config.open_paths or not config.asks_credentials:
            return
        if not await self._credentials.admit(config, authorization):
            raise Unauthenticated("credentials are missing or wrong")

    def _challenges(self) -> list[str]:
        config = self._guard.config
        basic = ['Basic realm="asyncrl exporter", charset="UTF-8"'] if config.basic_auth_users else []
        return basic + (['Bearer realm="asyncrl exporter"'] if config.bearer_tokens else [])

    def _with_headers(self, send: Send) -> Send:
        added = self._guard.config.headers
        if not added:
            return send

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(added)
            await send(message)

        return send_with_headers


async def _drain(receive: Receive) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            while (message := await receive())["type"] == "http.request" and message.get("more_body"):
                pass
