"""A request on its way through the writer thread, and who waits for its outcome in an event loop."""

import asyncio

import msgspec

from exporter.errors import JournalUnavailable
from exporter.journal import Event
from exporter.records import Batch, Reply


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """`answer` is a future of `loop`."""

    event: Event
    batch: Batch
    answer: asyncio.Future[Reply]
    loop: asyncio.AbstractEventLoop

    def settle(self, outcome: Reply | JournalUnavailable) -> None:
        """Hand the outcome to the event loop that waits for it, if it still does. From any thread."""

        def deliver() -> None:
            if self.answer.done():
                return
            if isinstance(outcome, Reply):
                self.answer.set_result(outcome)
            else:
                self.answer.set_exception(outcome)

        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(deliver)
