"""The first coroutine that ends decides; nobody is left running."""

import asyncio

import pytest

from runtime.race import race


def test_first_end_cancels_the_others() -> None:
    ended: list[str] = []

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    async def brief() -> None:
        await asyncio.sleep(0)

    asyncio.run(race(endless(), brief()))
    assert ended == ["cancelled"]


def test_first_failure_is_raised_as_it_is() -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise KeyError("original")

    with pytest.raises(KeyError, match="original"):
        asyncio.run(race(asyncio.Event().wait(), fail()))
