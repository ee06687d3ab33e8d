"""An actor without Ray: `handle.method.remote(...)` runs in this process and loop, and its result can be awaited."""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple


class LocalMethod(NamedTuple):
    call: Callable[..., Any]

    def remote(self, *arguments: Any) -> "asyncio.Task[Any]":
        return asyncio.ensure_future(self.call(*arguments))


class LocalActor:
    def __init__(self, instance: object) -> None:
        self._instance = instance

    def __getattr__(self, name: str) -> LocalMethod:
        return LocalMethod(getattr(self._instance, name))


def stored(value: object) -> "asyncio.Future[Any]":
    """A reference to an object in the store, already there."""
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    future.set_result(value)
    return future
