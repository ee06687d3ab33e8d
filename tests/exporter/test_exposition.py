"""Writing a page: one bad family costs no other, and never a blank page."""

import asyncio
import gzip
import logging
import sqlite3
import threading
from collections.abc import Iterator

import msgspec
import pytest
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric

from exporter.errors import PageUnavailable
from exporter.exposition import Exposition
from exporter.negotiation import OPENMETRICS, TEXT, Format
from exporter.page_writer import PageWriter
from exporter.publish.page import families
from exporter.scrape_log import ScrapeLog
from exporter.self_metrics import SelfMetrics
from exporter.snapshot import HistogramSnapshot, Snapshot
from exporter.state import SealedWindow, State
from runtime.telemetry.schema import BUCKETS
from tests.exporter.conftest import StartExporter
from tests.exporter.test_page_budget import snapshot
from tests.page import check_page
from tests.wire import Emitter, Scrape


def good(name: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, "A gauge.", value=1)


def write(exposition: Exposition[str], form: Format = TEXT) -> str:
    page = asyncio.run(exposition.page("snapshot", form, compressed=False))
    exposition.close()
    return b"".join(page.texts).decode()


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


def test_what_a_journal_says_of_metrics_unknown_here_costs_the_page_nothing_else(
    start_exporter: StartExporter,
) -> None:
    """As after a downgrade: run `old` has a value and a timestamp that this version cannot place, and a histogram of
    other buckets, which begins anew."""
    exporter = start_exporter()
    reward = {"asyncrl.buckets.reward": [1] + [0] * len(BUCKETS["reward"])}
    values = {"policy_loss": 2.5, "reward": [1, -9.0, -9.0, -9.0, 0.0]}
    for run in ("old", "new"):
        trainer = Emitter(exporter.otlp, run=run)
        step = trainer.train_step(1, 1, values=values, attributes=reward)
        assert trainer.post(step, trainer.weight_sync(1, 1)).rejected == 0
    assert exporter.stop()[0] == 0
    journal = sqlite3.connect(exporter.data_dir / "journal.sqlite")
    state = msgspec.msgpack.decode(journal.execute("SELECT body FROM checkpoint").fetchone()[0], type=State)
    state.runs["old"].histograms["reward"].bounds = (-2.0, *BUCKETS["reward"][1:])
    state.runs["old"].timestamps["asyncrl_last_dream_timestamp_seconds"] = 1.0
    body = journal.execute("SELECT body FROM versions WHERE run = 'old'").fetchone()[0]
    window = msgspec.msgpack.decode(body, type=SealedWindow)
    window.values.scalars["dreaminess"] = 1.0
    journal.execute("UPDATE checkpoint SET body = ?", (msgspec.msgpack.encode(state),))
    journal.execute("UPDATE versions SET body = ? WHERE run = 'old'", (msgspec.msgpack.encode(window),))
    journal.commit()
    journal.close()
    exporter = start_exporter(data_dir=exporter.data_dir)
    page = Scrape(exporter.metrics)
    check_page(page.text, page.content_type)
    at = {"attempt": 1, "param_version": 1}
    assert page.value("asyncrl_policy_loss", run="new") == 2.5
    assert page.value("asyncrl_version_policy_loss", run="new", **at) == 2.5
    for run in ("old", "new"):
        assert page.value("asyncrl_run_status", run=run, status="running") == 1
        assert page.value("asyncrl_train_steps_total", run=run) == 1
        assert page.value(
            "asyncrl_exporter_source_last_seen_timestamp_seconds", run=run, role="trainer", rollouter=""
        )
    assert page.by_label("asyncrl_reward_bucket", "run", le="+Inf") == {"new": 1}
    assert page.value("asyncrl_exporter_render_errors_total") == 3
    trainer = Emitter(exporter.otlp, run="old", source="t1")
    assert trainer.post(trainer.train_step(2, 2, values=values, attributes=reward)).rejected == 0
    page = Scrape(exporter.metrics)
    check_page(page.text, page.content_type)
    assert page.by_label("asyncrl_reward_bucket", "run", le="+Inf") == {"new": 1, "old": 1}
    code, said = exporter.stop()
    assert code == 0
    assert said.count("left out of the page") == 3
    assert 'event="histogram begins anew" run=old metric=reward' in said


def test_a_histogram_that_cannot_be_written_costs_no_other_run_its_own() -> None:
    good, foreign = (
        HistogramSnapshot(counts=(1,) * (len(BUCKETS["reward"]) + more), sum=1.0, exemplars={})
        for more in (1, 2)
    )
    runs = {
        name: msgspec.structs.replace(snapshot(name), histograms={"reward": histogram})
        for name, histogram in (("first", foreign), ("second", good))
    }
    texts, complete = PageWriter(TEXT, SelfMetrics(ScrapeLog())).write(families(Snapshot(runs=runs), 0.0), [])
    assert not complete
    text = b"".join(texts).decode()
    check_page(text, TEXT.content_type)
    assert text.count('asyncrl_reward_bucket{le="+Inf"') == 1
    assert f'asyncrl_reward_bucket{{le="+Inf",run="second"}} {float(sum(good.counts))}\n' in text


def test_a_part_of_the_exporter_that_cannot_say_how_it_does_silences_no_other() -> None:
    def locked() -> Iterator[Metric]:
        yield good("waiting")
        raise sqlite3.OperationalError("the journal is locked")

    own = SelfMetrics(ScrapeLog())
    own.others += [locked, lambda: [good("another")]]
    exposition = Exposition[str](lambda snapshot, now: [good("of_runs")], own)
    asyncio.run(exposition.page("snapshot", TEXT, compressed=False))
    text = write(exposition)
    for name in ("of_runs", "waiting", "another", "process_open_fds"):
        assert f"\n{name} " in text
    assert "asyncrl_exporter_render_errors_total 1.0\n" in text, "the first page's"


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
        bodies = [b"".join(page.texts) for page in [*pages, again]]
        texts = [gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body for body in bodies]
        return [text.decode().split("page_of_")[1].split()[0] for text in texts]

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
