"""The OTLP listener without a socket: bodies that come too slowly, at once, or not to their end."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from exporter import receiver
from exporter.config import ExporterConfig
from exporter.ingest import Ingest
from exporter.receiver import Receiver
from exporter.scrape_log import ScrapeLog
from exporter.self_metrics import SelfMetrics

LIMIT = 10_000


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[Receiver]:
    config = ExporterConfig(data_dir=tmp_path / "data", max_body_bytes=LIMIT)
    ingest = Ingest.open(config)
    made = Receiver(config, ingest, SelfMetrics(ScrapeLog()))
    yield made
    made.close()
    ingest.close()


async def post(listener: Receiver, chunks: AsyncIterator[bytes | None]) -> tuple[int, dict[bytes, bytes]]:
    """Status and headers of the answer to a body sent chunk by chunk; None is a sender that hangs up."""
    answer: dict[str, Any] = {}

    async def receive() -> dict[str, Any]:
        chunk = await anext(chunks, b"")
        if chunk is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": chunk, "more_body": chunk != b""}

    async def send(message: Any) -> None:
        answer.update(message)

    headers = [(b"content-type", b"application/x-protobuf")]
    scope = {"type": "http", "method": "POST", "path": "/v1/traces", "headers": headers, "query_string": b""}
    await listener.app()(scope, receive, send)
    return answer["status"], dict(answer["headers"])


async def body(*chunks: bytes | None) -> AsyncIterator[bytes | None]:
    for chunk in chunks:
        yield chunk


def test_c95_a_body_that_trickles_is_given_up(listener: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    async def trickle() -> AsyncIterator[bytes | None]:
        while True:
            await asyncio.sleep(0.001)
            yield b"x"

    monkeypatch.setattr(receiver, "_BODY_SECONDS", 0.05)
    status, _ = asyncio.run(post(listener, trickle()))
    assert status == 408


def test_c95_when_bodies_together_hold_too_much_the_largest_has_to_come_again(listener: Receiver) -> None:
    async def scenario() -> None:
        taken, go_on = asyncio.Semaphore(0), asyncio.Event()

        async def held() -> AsyncIterator[bytes | None]:
            yield bytes(LIMIT - 1)
            taken.release()
            await go_on.wait()
            yield b""

        holding = [asyncio.create_task(post(listener, held())) for _ in range(2)]
        for _ in holding:
            await taken.acquire()
        status, _ = await post(listener, body(bytes(100)))
        assert status == 400  # received and decoded, while two hold nearly all there is: it is no protobuf
        go_on.set()
        answers = await asyncio.gather(*holding)
        assert sorted(status for status, _ in answers) == [400, 429]
        assert [headers[b"retry-after"] for status, headers in answers if status == 429] == [b"1"]

    asyncio.run(scenario())


def test_a_sender_that_hangs_up_in_mid_body_leaves_nothing_behind(listener: Receiver) -> None:
    for _ in range(5):
        status, _ = asyncio.run(post(listener, body(bytes(LIMIT), None)))
        assert status == 400
    assert asyncio.run(post(listener, body(b"")))[0] == 200


def test_c95_a_body_over_the_limit_is_read_to_its_end_before_the_answer(listener: Receiver) -> None:
    sent = []

    async def watched() -> AsyncIterator[bytes | None]:
        for number in range(100):
            sent.append(number)
            yield bytes(1000)

    status, _ = asyncio.run(post(listener, watched()))
    assert (status, len(sent)) == (413, 100)
