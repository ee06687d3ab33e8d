"""The OTLP listener: POST /v1/traces and /v1/metrics.

read (bounded) -> decode (one thread, one body at a time) -> Ingest.submit (after the commit) -> answer
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from exporter import otlp
from exporter.config import ExporterConfig
from exporter.errors import BodyTooLarge, Overloaded, RequestError, SlowRequest
from exporter.forward import SpanForwarder
from exporter.ingest import Ingest
from exporter.self_metrics import SelfMetrics

_BODY_SECONDS = 30.0
"""Deadline for a whole body: a read timeout alone lets one byte per second through for ever."""
_HELD_BODIES = 2
"""All bodies being received together may hold this many times the limit of one."""


@dataclass(eq=False, kw_only=True, slots=True)
class _Body:
    """One that is being received, or decoded once it is `complete`."""

    content: bytearray = field(default_factory=bytearray)
    complete: bool = False
    refusal: RequestError | None = None

    def refuse(self, error: RequestError) -> None:
        self.refusal = error
        self.content.clear()


class Receiver:
    """Takes OTLP/HTTP requests; never holds more than `_HELD_BODIES` x max_body_bytes of undecoded bodies."""

    def __init__(
        self,
        config: ExporterConfig,
        ingest: Ingest,
        self_metrics: SelfMetrics,
        forwarder: SpanForwarder | None = None,
    ) -> None:
        self._limit_bytes = config.max_body_bytes
        self._ingest = ingest
        self._forwarder = forwarder
        self._self_metrics = self_metrics
        self._decoder = ThreadPoolExecutor(max_workers=1, thread_name_prefix="decoder")
        self._bodies: set[_Body] = set()

    def app(self) -> Starlette:
        """The ASGI application."""
        return Starlette(
            routes=[
                Route("/v1/traces", self._endpoint("traces"), methods=["POST"]),
                Route("/v1/metrics", self._endpoint("metrics"), methods=["POST"]),
            ]
        )

    def close(self) -> None:
        """Ends the decoding thread once it is idle."""
        self._decoder.shutdown()

    def _endpoint(self, signal: otlp.Signal) -> Callable[[Request], Awaitable[Response]]:
        async def post(request: Request) -> Response:
            response = await self._answer(signal, request)
            self._self_metrics.requests[signal, response.status_code] += 1
            return response

        return post

    async def _answer(self, signal: otlp.Signal, request: Request) -> Response:
        content_type = request.headers.get("content-type", "")
        body = _Body()
        self._bodies.add(body)
        try:
            await self._read(request, body)
            reply = await self._submit(signal, request, bytes(body.content))
        except RequestError as error:
            return error_response(error, content_type)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody is left to read it
        finally:
            self._bodies.remove(body)
        return Response(reply, headers={"content-type": otlp.media_type(content_type)})

    async def _submit(self, signal: otlp.Signal, request: Request, body: bytes) -> bytes:
        content_type = request.headers.get("content-type", "")
        decode = partial(
            otlp.decode_request,
            signal,
            content_type,
            request.headers.get("content-encoding", ""),
            body,
            limit_bytes=self._limit_bytes,
        )
        message, batch = await asyncio.get_running_loop().run_in_executor(self._decoder, decode)
        reply = await self._ingest.submit(signal, message, batch)
        if signal == "traces" and self._forwarder is not None:
            self._forwarder.offer(message)
        return otlp.response(signal, reply, content_type)

    async def _read(self, request: Request, body: _Body) -> None:
        """Fills `body`. What is refused is still read to its end, unbuffered: a sender that is cut off in
        mid-body sees a reset connection in place of the answer."""
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                async for chunk in request.stream():
                    self._make_room(body, len(chunk))
                    if body.refusal is None:
                        body.content += chunk
        except TimeoutError:
            raise body.refusal or SlowRequest(f"the body was not in within {_BODY_SECONDS:g} s") from None
        if body.refusal is not None:
            raise body.refusal
        body.complete = True

    def _make_room(self, body: _Body, more_bytes: int) -> None:
        """Refuses `body` if it is too large. If all together are, the largest that is still being received has to
        come again: whoever sends little, or is done, is not held up by those who dawdle with much."""
        if body.refusal is None and len(body.content) + more_bytes > self._limit_bytes:
            body.refuse(BodyTooLarge(f"body is over the limit of {self._limit_bytes} bytes"))
        while body.refusal is None and self._held_bytes + more_bytes > _HELD_BODIES * self._limit_bytes:
            unfinished = [held for held in self._bodies if not held.complete]
            largest = max(unfinished, key=lambda held: len(held.content) + more_bytes * (held is body))
            largest.refuse(Overloaded("too many bodies at once"))

    @property
    def _held_bytes(self) -> int:
        return sum(len(body.content) for body in self._bodies)


def error_response(error: RequestError, content_type: str) -> Response:
    """What OTLP/HTTP asks an answer other than 200 to be."""
    media, content = otlp.failure(error.status, str(error), content_type)
    headers = {"content-type": media}
    if error.retry_after_seconds is not None:
        headers["retry-after"] = str(error.retry_after_seconds)
    return Response(content, status_code=error.status, headers=headers)
