"""A page that is sent in pieces is the page, and holds little of its own while it waits for its reader."""

import asyncio
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.core import GaugeMetricFamily, Metric
from starlette.types import Message

from exporter.exposition import Exposition, Page
from exporter.negotiation import TEXT
from exporter.pacing import PIECE_BYTES
from exporter.page_response import PageResponse
from exporter.page_writer import Part
from exporter.scrape_log import ScrapeLog
from exporter.self_metrics import SelfMetrics

SIZES = st.one_of(st.integers(0, 100), st.integers(PIECE_BYTES - 2, PIECE_BYTES + 2))


def send(response: PageResponse) -> list[Message]:
    sent: list[Message] = []

    async def note(message: Message) -> None:
        sent.append(message)

    async def nothing() -> Message:
        raise AssertionError("nothing is to be received")

    asyncio.run(response({"type": "http"}, nothing, note))
    return sent


@given(st.lists(SIZES, max_size=12))
def test_the_pieces_are_the_page_and_no_more_of_them_than_it_needs(sizes: list[int]) -> None:
    texts = [bytes([65 + number]) * size for number, size in enumerate(sizes)]
    start, *bodies = send(PageResponse(texts, headers={"content-type": "text/plain"}))
    whole = b"".join(texts)
    assert b"".join(message["body"] for message in bodies) == whole
    assert dict(start["headers"]) == {
        b"content-type": b"text/plain",
        b"content-length": str(len(whole)).encode(),
    }
    assert [message.get("more_body", False) for message in bodies] == [True] * (len(bodies) - 1) + [False]
    pieces = [len(message["body"]) for message in bodies[:-1]]
    assert max(pieces) <= max(PIECE_BYTES, *sizes, 0)
    assert all(one + other > PIECE_BYTES for one, other in pairwise(pieces))


def test_pages_share_what_they_say_of_sealed_versions() -> None:
    versions = [object() for _ in range(500)]

    def gauge(name: str, value: float) -> list[Metric]:
        return [GaugeMetricFamily(name, "A gauge.", value=value)]

    exposition = Exposition[int](
        lambda newest, now: gauge("asyncrl_param_version", newest),
        SelfMetrics(ScrapeLog()),
        lambda newest: (Part((each,), lambda: gauge("asyncrl_version_a", 1.0)) for each in versions[:newest]),
    )

    async def pages() -> list[Page]:
        return [await exposition.page(newest, TEXT, compressed=False) for newest in (498, 499)]

    before, after = asyncio.run(pages())
    exposition.close()
    shared = {id(text): len(text) for text in before.texts}
    own = sum(len(text) for text in after.texts if id(text) not in shared)
    assert b"".join(after.texts).count(b"\nasyncrl_version_a 1.0") == 499
    assert own < sum(map(len, after.texts)) / 2
