"""The exporter's own families: declared in the catalogue, explained to the operator, and right."""

import re
from pathlib import Path

from exporter import catalog
from exporter.config import ExporterConfig
from tests.exporter.conftest import StartedExporter, StartExporter
from tests.page import check_page
from tests.wire import Emitter, Scrape, scrape_until

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"
OWN = {family.name for family in catalog.FAMILIES if family.name.startswith("asyncrl_exporter_")}

OF_THE_LEDGER = {catalog.SOURCE_LAST_SEEN.name, catalog.SOURCE_CLOCK_OFFSET.name}


def shown(page: Scrape) -> set[str]:
    return {name for name, _ in page.samples if name.startswith("asyncrl_exporter_")}


def test_the_page_shows_no_family_of_its_own_that_the_catalogue_lacks(start_exporter: StartExporter) -> None:
    exporter = start_exporter("--push", "http://127.0.0.1:1", "--forward-spans", "http://127.0.0.1:1")
    trainer = Emitter(exporter.otlp)
    trainer.post(*trainer.window(1, [{"policy_loss": 1.0}]))
    Emitter(exporter.otlp, run="").post(trainer.train_step(2, 2))  # names no run
    page = scrape_until(
        exporter.metrics,
        lambda page: (
            (page.value("asyncrl_exporter_push_requests_total", status="none") or 0) > 0
            and page.value("asyncrl_exporter_unattributed_records_total", reason="missing_attribute")
        ),
    )
    check_page(page.text, page.content_type)
    assert shown(page) == OWN - {catalog.CERTIFICATE_EXPIRY.name}  # plain HTTP has no certificate


def test_the_operator_is_told_of_every_family_of_the_exporter() -> None:
    told = set(re.findall(r"asyncrl_exporter_\w+", OPERATIONS.read_text(encoding="utf-8")))
    assert told == OWN


def test_the_series_on_the_page_are_counted(exporter: StartedExporter) -> None:
    trainer = Emitter(exporter.otlp)
    trainer.post(*trainer.window(1, [{"policy_loss": 1.0, "reward": [1, 1.0, 1.0, 1.0, 0.0]}]))
    page = scrape_until(exporter.metrics, lambda page: page.value("asyncrl_policy_loss", run="r") == 1.0)
    of_runs = [
        name
        for name, _ in page.samples
        if not name.startswith("process_") and (name not in OWN or name in OF_THE_LEDGER)
    ]
    assert page.value("asyncrl_exporter_series") == len(of_runs)
    assert page.value("asyncrl_exporter_series_budget") == ExporterConfig().series_budget
    assert page.value("asyncrl_exporter_ingest_queue_bytes") == 0
    later = Scrape(exporter.metrics)
    for name in ("scrape", "render"):
        assert 0 < (later.value(f"asyncrl_exporter_{name}_duration_seconds") or 0) < 60


def test_series_of_rollouters_beyond_64_are_dropped_and_counted(exporter: StartedExporter) -> None:
    trainer = Emitter(exporter.otlp)
    slots = [str(slot) for slot in range(65)]
    for slot in slots:
        rollouter = Emitter(exporter.otlp, source=f"r{slot}", role="rollouter")
        rollouter.post(rollouter.rollouter_window(1, slot, {"generating": 1.0}))
    trainer.post(*trainer.window(1, [{}], rollouters=slots))
    page = scrape_until(exporter.metrics, lambda page: page.value("asyncrl_param_version", run="r") == 1.0)
    page = scrape_until(
        exporter.metrics, lambda page: page.value("asyncrl_rollouters_idle_ratio", run="r") == 0.0
    )
    assert page.by_label("asyncrl_rollouter_idle_ratio", "rollouter", run="r") == {}
    assert page.value("asyncrl_exporter_dropped_series_total", reason="rollouters") == 65 * 4
    assert page.value("asyncrl_exporter_dropped_series_total", reason="series_budget") == 0


def test_versions_that_leave_early_count_their_series(start_exporter: StartExporter) -> None:
    exporter = start_exporter("--series-budget", "100", "--window-versions", "3")
    trainer = Emitter(exporter.otlp)
    for version in range(1, 4):
        trainer.post(*trainer.window(version, [{"policy_loss": 1.0}]))
    page = scrape_until(
        exporter.metrics, lambda page: page.value("asyncrl_versions_evicted_early_total", run="r") == 2.0
    )
    assert page.value(
        "asyncrl_exporter_dropped_series_total", reason="series_budget"
    ) == 2 * catalog.version_series(0)
