"""The log of scrapes is written by those who answer them, and read by the ledger."""

import sys
import threading

from exporter.scrape_log import ScrapeLog

READS = 20_000


def test_the_interval_may_be_asked_for_while_scrapes_are_recorded() -> None:
    """A page that was served at a wrong moment once let a whole batch of telemetry be refused."""
    scrapes, over = ScrapeLog(), threading.Event()

    def record() -> None:
        while not over.is_set():
            scrapes.record(0.0)

    recorder = threading.Thread(target=record)
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    recorder.start()
    try:
        intervals = [scrapes.interval_seconds for _ in range(READS)]
    finally:
        over.set()
        recorder.join()
        sys.setswitchinterval(usual)
    assert all(interval is None or interval >= 0 for interval in intervals)
