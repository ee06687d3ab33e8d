"""One publication: the trainer's weights into every rollouter.

    trainer   arrays -> object store ----ref----> rollouter   fetch, wait for a gap between tokens, load
              end of the sync  <------------------ all have loaded

The sync ends when the last rollouter has loaded; then its version is published.
"""

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any, NamedTuple

import numpy as np
import ray
from ray.exceptions import RayActorError

from runtime.errors import ActorFailedError

Arrays = dict[str, np.ndarray]


class LoadReport(NamedTuple):
    """What one rollouter says about a load."""

    served_before: bool
    """It served an earlier version, so that it owes a window record."""
    idle_ratio: float | None
    """Of the window that the load has closed; None if there was none."""
    wait_seconds: float
    """From having the weights to the gap between tokens in which it loads them."""
    load_seconds: float


class SyncReport(NamedTuple):
    """One sync, for its span."""

    owing: list[str]
    """Slots that owe a rollouter window of the version."""
    idle_ratio: float | None
    """Of the idlest rollouter in its window of the version; None if nobody had one."""
    bytes: int
    """Of the weights, once."""
    wait_seconds: float
    load_seconds: float
    """Of the rollouter that took longest; what is left of the sync's duration is transfer."""


async def sync_weights(arrays: Arrays, version: int, rollouters: Mapping[str, Any]) -> SyncReport:
    """Returns when each of `rollouters`, the actors by slot, has loaded `version`.

    Raises ActorFailedError if one of them died.
    """
    # ray.put copies into shared memory; in a thread, so that the actor's loop goes on.
    reference = await asyncio.to_thread(ray.put, arrays)
    loads = [
        _load(slot, rollouter.load_weights.remote(version, [reference]))
        for slot, rollouter in rollouters.items()
    ]
    reports = dict(zip(rollouters, await asyncio.gather(*loads), strict=True))
    slowest = max(reports.values(), key=lambda report: report.wait_seconds + report.load_seconds)
    return SyncReport(
        owing=[slot for slot, report in reports.items() if report.served_before],
        idle_ratio=max((r.idle_ratio for r in reports.values() if r.idle_ratio is not None), default=None),
        bytes=sum(array.nbytes for array in arrays.values()),
        wait_seconds=slowest.wait_seconds,
        load_seconds=slowest.load_seconds,
    )


async def _load(slot: str, answer: Awaitable[LoadReport]) -> LoadReport:
    try:
        return await answer
    except RayActorError as error:
        raise ActorFailedError(f"rollouter {slot} died during a weight sync") from error
