"""Cases from the field: names, versions, processes and scrapers by the thousand; nothing grows, nothing is torn."""

import os
import statistics
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import requests
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.exporter.conftest import StartedExporter, StartExporter
from tests.exporter.test_cases_page import lint_of
from tests.page import check_page
from tests.wire import WATCHDOG_SECONDS, Emitter, Scrape, post_raw, scrape_until

SLOT = "asyncrl.rollouter"
LIVES_AT_ONCE = 50
SOAK_VERSIONS = int(os.environ.get("ASYNCRL_SOAK_VERSIONS", "10000"))
SERIES_BUDGET = 50_000  # the default
SOAK_SECONDS = float(os.environ.get("ASYNCRL_SOAK_SECONDS", "60"))


def process(exporter: StartedExporter) -> tuple[float, int, int]:
    """Its resident memory in MB, its threads and its open files; connections have a bound of their own."""
    proc = Path(f"/proc/{exporter.process.pid}")
    status = proc.joinpath("status").read_text(encoding="utf-8")
    return (
        int(status.split("VmRSS:")[1].split()[0]) / 1024,
        int(status.split("Threads:")[1].split()[0]),
        sum(not os.readlink(file).startswith("socket:") for file in proc.joinpath("fd").iterdir()),
    )


def labelled(page: Scrape, label: str) -> int:
    return sum(label in dict(labels) for _, labels in page.samples)


def when_complete(exporter: StartedExporter, versions: int) -> Scrape:
    return scrape_until(
        exporter.metrics,
        lambda page: page.value("asyncrl_versions_sealed_total", run="r", complete="true") == versions,
    )


def shows_newest(version: int, count: int, page: Scrape) -> bool:
    """Whether the page has come to `version`, and has only so many versions left."""
    shown = page.by_label("asyncrl_version_complete", "param_version", run="r")
    return str(version) in shown and len(shown) == count


def send_versions(trainer: Emitter, first: int, last: int, metrics: int, *, per_request: int = 20) -> None:
    """Windows of one step and so many metrics of the sender's own."""
    for start in range(first, last + 1, per_request):
        spans: list[Any] = []
        for version in range(start, min(start + per_request, last + 1)):
            values = {f"actor/metric_{number}": float(version) for number in range(metrics)}
            spans += trainer.window(version, [values | {"policy_loss": float(version)}])
        assert trainer.post(*spans).rejected == 0


def test_c31_a_bad_name_costs_no_good_one(exporter: StartedExporter) -> None:
    bad = ("failing-metric", "demo/latency", "fully_async/rollouter/idle_ratio", "reward/mean@4", "9x")
    hopeless = ("", "@@@", "损失", "x" * 300)
    good = {f"good_{number}": float(number) for number in range(10)}
    trainer = Emitter(exporter.otlp)
    values = dict.fromkeys((*bad, "val-core/acc/mean@4", *hopeless), 0.5) | good
    assert trainer.post(*trainer.window(1, [values])).rejected == 0
    page = when_complete(exporter, 1)
    shown = {name: page.value(f"asyncrl_user_{name}", run="r") for name in good}
    assert shown == good
    for name in ("failing_metric", "demo_latency", "fully_async_rollouter_idle_ratio", "reward_mean_4", "9x"):
        assert page.value(f"asyncrl_user_{name}", run="r") == 0.5
    assert page.value("asyncrl_user_val_core_acc_mean_4", run="r") == 0.5
    assert page.value("asyncrl_rejected_records_total", run="r", reason="bad_name") == len(hopeless)
    check_page(page.text, page.content_type)
    assert lint_of(page) == []


def test_c42_the_number_of_versions_and_of_restarts_adds_no_series(start_exporter: StartExporter) -> None:
    exporter = start_exporter("--window-seconds", "0", "--window-versions", "20")
    trainer = Emitter(exporter.otlp)
    series: list[int] = []
    for last in (50, 150):
        send_versions(trainer, 1 if last == 50 else 51, last, metrics=5)
        for life in range(last // 2):
            worker = Emitter(exporter.otlp, role="rollouter", source=f"{last} {life}")
            busy = worker.gauge("asyncrl.rollouter.decoding", 1.0, {SLOT: "0"})
            assert (
                worker.post_metrics(busy, worker.sum("asyncrl.tokens.generated", 1, start=1.0)).rejected == 0
            )
        page = scrape_until(exporter.metrics, partial(shows_newest, last, 20))
        series.append(len(page.samples))
        shown = page.by_label("asyncrl_version_complete", "param_version", run="r")
        assert sorted(map(int, shown)) == list(range(last - 19, last + 1))
        assert page.by_label("asyncrl_rollouter_decoding", "rollouter", run="r") == {"0": 1.0}
    assert series[0] == series[1]
    assert page.value("asyncrl_tokens_total", run="r", kind="generated") == 100
    check_page(page.text, page.content_type)


def test_c43_a_page_over_its_budget_keeps_to_it_and_says_what_it_dropped(
    start_exporter: StartExporter,
) -> None:
    budget = 4000
    exporter = start_exporter("--series-budget", str(budget), "--window-versions", "200")
    trainer = Emitter(exporter.otlp, run="r" * 4478)
    rollouter = Emitter(exporter.otlp, run="r" * 4478, role="rollouter", source="r0")
    names = {f"group/{'long_' * 15}{number}": 1.0 for number in range(200)}
    for version in range(1, 31):
        slots = [f"{'node-' * 30}{slot}" for slot in range(64)]
        windows = [rollouter.rollouter_window(version, slot, {"generating": 1.0}) for slot in slots]
        assert rollouter.post(*windows).rejected == 0
        assert trainer.post(*trainer.window(version, [names])).rejected == 0
    run = "r" * 200
    page = scrape_until(
        exporter.metrics,
        lambda page: (
            page.value("asyncrl_param_version", run=run) == 30
            and labelled(page, "param_version") <= budget
            and page.value("asyncrl_window_stride_versions", run=run) != 1
        ),
    )
    assert page.value("asyncrl_versions_evicted_early_total", run=run)
    assert page.value("asyncrl_exporter_dropped_series_total", reason="series_budget")
    assert len(page.text) < 16 * 1024 * 1024
    assert max(len(value) for _, labels in page.samples for _, value in labels) == 200
    check_page(page.text, page.content_type)


def hammer(
    exporter: StartedExporter, done: threading.Event, pages: list[Scrape], failed: list[Exception]
) -> None:
    while not done.is_set():
        try:
            page = Scrape(exporter.metrics, accept=("", "application/openmetrics-text")[len(pages) % 2])
            check_page(page.text, page.content_type)
        except Exception as error:  # whatever a scraper meets is what the test is about
            failed.append(error)
            return
        pages.append(page)


def scrape_while_labels_come_and_go(exporter: StartedExporter, *, pages: int, seconds: float) -> int:
    """8 scrapers beside workers that are born, speak once, and end; returns how many lives there were."""
    done, seen, failed = threading.Event(), list[Scrape](), list[Exception]()
    scrapers = [threading.Thread(target=hammer, args=(exporter, done, seen, failed)) for _ in range(8)]
    for scraper in scrapers:
        scraper.start()
    begun, life = time.monotonic(), 0
    trainer = Emitter(exporter.otlp)
    counts = {"asyncrl.buckets.response_length": [0, 1] + [0] * 15}
    while not failed and (len(seen) < pages or time.monotonic() - begun < seconds):
        births, ends = ExportMetricsServiceRequest(), ExportTraceServiceRequest()
        for _ in range(LIVES_AT_ONCE):
            life += 1
            worker = Emitter(exporter.otlp, role="rollouter", source=f"w{life}")
            busy = worker.gauge("asyncrl.rollouter.decoding", 1.0, {SLOT: f"slot {life}"})
            tokens = worker.sum("asyncrl.tokens.generated", 1, start=1.0)
            births.MergeFrom(worker.metrics_request(busy, tokens))
            ends.MergeFrom(worker.request(worker.run_end(0, "stopped")))
        for kind, said in (("metrics", births), ("traces", ends)):
            assert post_raw(exporter.otlp, said.SerializeToString(), signal=kind).rejected == 0
        values = {"response_length": [1, 2.0, 2.0, 2.0, 0.0]}
        step = trainer.train_step(
            life // LIVES_AT_ONCE, life // LIVES_AT_ONCE, values=values, attributes=counts
        )
        assert trainer.post(step, trainer.weight_sync(life // LIVES_AT_ONCE, 1)).rejected == 0
    done.set()
    for scraper in scrapers:
        scraper.join(WATCHDOG_SECONDS)
    assert failed == []
    page = scrape_until(
        exporter.metrics,
        lambda page: (
            page.value("asyncrl_tokens_total", run="r", kind="generated") == life
            and page.value("asyncrl_response_length_tokens_count", run="r") == life // LIVES_AT_ONCE
            and not page.by_label("asyncrl_rollouter_decoding", "rollouter", run="r")
        ),
    )
    check_page(page.text, page.content_type)
    return life


def test_c50_scrapes_and_new_labels_do_not_disturb_each_other(exporter: StartedExporter) -> None:
    scrape_while_labels_come_and_go(exporter, pages=40, seconds=0.0)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_soak_c50_a_minute_of_scrapes_while_labels_come_and_go(exporter: StartedExporter) -> None:
    lives = scrape_while_labels_come_and_go(exporter, pages=40, seconds=SOAK_SECONDS)
    print(f"{lives} lives in {SOAK_SECONDS:g} s beside 8 scrapers")


def test_c44_versions_and_scrapes_leave_no_thread_and_no_file_behind(start_exporter: StartExporter) -> None:
    exporter = start_exporter("--window-seconds", "0")
    trainer = Emitter(exporter.otlp)
    counted: list[tuple[int, int]] = []
    for last in (100, 200, 300):
        send_versions(trainer, last - 99, last, metrics=50)
        for _ in range(10):
            page = when_complete(exporter, last)
        counted.append(process(exporter)[1:])
    check_page(page.text, page.content_type)
    assert counted[1] == counted[2]


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_soak_c44_10_000_versions_of_50_metrics_are_flat(
    start_exporter: StartExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = requests.Session()  # as Prometheus and the runtime do: connections are kept, not made anew
    monkeypatch.setattr(requests, "post", session.post)
    monkeypatch.setattr(requests, "get", session.get)
    exporter = start_exporter("--window-seconds", "0")
    trainer = Emitter(exporter.otlp)
    memory, threads, series = list[float](), set[int](), set[int]()
    for last in range(100, SOAK_VERSIONS + 1, 100):
        send_versions(trainer, last - 99, last, metrics=50)
        page = when_complete(exporter, last)
        megabytes, running, _ = process(exporter)
        memory.append(megabytes)
        if last > SOAK_VERSIONS // 4:  # warm
            threads.add(running)
            series.add(labelled(page, "param_version"))
    quarter = len(memory) // 4
    second, fourth = statistics.median(memory[quarter : 2 * quarter]), statistics.median(memory[-quarter:])
    slope = statistics.linear_regression(range(3 * quarter), memory[-3 * quarter :]).slope * 10
    print(f"RSS {second:.1f} -> {fourth:.1f} MB, {slope:+.3f} MB per 1000 versions")
    print(f"threads {threads}, series {min(series)}..{max(series)}; RSS by 1000 versions {memory[9::10]}")
    session.close()
    assert fourth <= 1.05 * second
    assert len(threads) == 1
    assert max(series) <= SERIES_BUDGET
