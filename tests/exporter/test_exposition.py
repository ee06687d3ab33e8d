"""Writing a page: one bad family costs no other, and never a blank page."""

import asyncio
import gzip
import logging
import threading
from collections.abc import Iterator

import pytest
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric

from exporter.errors import PageUnavailable
from exporter.exposition import Exposition
from exporter.negotiation import OPENMETRICS, TEXT, Format
from exporter.scrape_log import ScrapeLog
from exporter.self_metrics import SelfMetrics
from tests.page import check_page


def good(name: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, "A gauge.", value=1)


def write(exposition: Exposition[str], form: Format = TEXT) -> str:
    page = asyncio.run(exposition.page("snapshot", form, compressed=False))
    exposition.close()
    return page.body.decode()


@pytest.mark.parametrize("form", [TEXT, OPENMETRICS], ids=["text", "openmetrics"])
def test_c35_a_family_that_cannot_be_written_is_left_out_and_counted(
    form: Format, caplog: pytest.LogCaptureFixture
) -> None:
    def families(snapshot: str, now: float) -> Iterator[Metric]:
        yield good("before")
        broken = GaugeMetricFamily("broken", "A gauge.", labels=["run"])
        broken.add_metric(["lone surrogate \ud800"], 1.0)
        yield broken
        yield good("after")

    own = SelfMetrics(ScrapeLog())
    with caplog.at_level(logging.ERROR):
        text = write(Exposition(families, own), form)
    check_page(text, form.content_type)
    assert "before 1.0\n" in text
    assert "after 1.0\n" in text
    assert "broken" not in text
    assert "asyncrl_exporter_render_errors_total 1.0\n" in text
    assert "broken is left out of the page: UnicodeEncodeError" in caplog.text


def test_c35_a_source_that_raises_in_between_keeps_what_was_read_before() -> None:
    def families(snapshot: str, now: float) -> Iterator[Metric]:
        yield good("before")
        raise RuntimeError("the source is gone")

    text = write(Exposition(families, SelfMetrics(ScrapeLog())))
    assert "before 1.0\n" in text
    assert "asyncrl_exporter_render_errors_total 1.0\n" in text


def test_c35_nothing_readable_is_no_page_at_all() -> None:
    def families(snapshot: str, now: float) -> Iterator[Metric]:
        raise RuntimeError("the source is gone")
        yield good("never")

    with pytest.raises(PageUnavailable):
        write(Exposition(families, SelfMetrics(ScrapeLog())))


def test_an_exporter_without_runs_still_has_its_own_families() -> None:
    def families(snapshot: str, now: float) -> Iterator[Metric]:
        yield from ()

    assert "asyncrl_exporter_build_info" in write(Exposition(families, SelfMetrics(ScrapeLog())))


def test_concurrent_scrapes_of_one_snapshot_share_a_page_and_other_snapshots_do_not() -> None:
    written: list[str] = []
    started = threading.Event()
    release = threading.Event()

    def families(snapshot: str, now: float) -> Iterator[Metric]:
        written.append(snapshot)
        started.set()
        release.wait(timeout=60)
        yield good(f"page_of_{snapshot}")

    async def scrape() -> list[str]:
        exposition = Exposition(families, SelfMetrics(ScrapeLog()))
        asked = [("first", False), ("first", False), ("second", False), ("first", False), ("second", True)]
        jobs = [
            asyncio.create_task(exposition.page(snapshot, TEXT, compressed=packed))
            for snapshot, packed in asked
        ]
        await asyncio.to_thread(started.wait, 60)
        release.set()
        pages = await asyncio.gather(*jobs)
        again = await exposition.page("first", TEXT, compressed=False)
        exposition.close()
        bodies = [gzip.decompress(page.body) if page.body[:2] == b"\x1f\x8b" else page.body for page in pages]
        return [body.decode().split("page_of_")[1].split()[0] for body in [*bodies, again.body]]

    assert asyncio.run(scrape()) == ["first", "first", "second", "first", "second", "first"]
    assert written == ["first", "second", "second", "first"]


def test_a_signed_histogram_has_neither_sum_nor_count() -> None:
    def families(snapshot: str, now: float) -> Iterator[Metric]:
        family = HistogramMetricFamily("advantage", "A histogram.", labels=["run"])
        family.add_metric(["r"], buckets=[("0.0", 1), ("+Inf", 3)], sum_value=None)
        yield family

    text = write(Exposition(families, SelfMetrics(ScrapeLog())))
    check_page(text, TEXT.content_type)
    assert "advantage_count" not in text


def test_the_observed_interval_is_the_median_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 5.0, 10.0, 15.0, 115.0, 120.0])
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    log = ScrapeLog()
    intervals = []
    for timestamp in range(6):
        log.record(float(timestamp))
        intervals.append(log.interval_seconds)
    assert intervals == [None, 5.0, 5.0, 5.0, 5.0, 5.0]
    assert (log.count, log.last_timestamp) == (6, 5.0)
