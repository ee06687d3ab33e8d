"""Several coroutines, of which the first that ends decides."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def race(*coroutines: Coroutine[Any, Any, object]) -> None:
    """Run all of them until the first returns or raises; then cancel the others and wait for their end.

    Raises what the first raised. `race(stop.wait(), loop())` runs a loop until it fails or is told to stop.
    """
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
