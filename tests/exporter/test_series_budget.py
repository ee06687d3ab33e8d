"""The page keeps to its series budget, however wide the versions are."""

import signal

from exporter.catalog import version_series
from tests.exporter.conftest import StartExporter
from tests.page import check_page
from tests.wire import Emitter, scrape_until

BUDGET = 3000
ROLLOUTERS = 40
VERSIONS = 30
KEPT = BUDGET // version_series(ROLLOUTERS)


def test_of_wide_versions_fewer_are_on_the_page_and_an_evicted_one_is_counted_once(
    start_exporter: StartExporter,
) -> None:
    exporter = start_exporter("--series-budget", str(BUDGET))
    trainer = Emitter(exporter.otlp)
    rollouter = Emitter(exporter.otlp, role="rollouter", source="r0")
    for version in range(1, VERSIONS + 1):
        windows = [
            rollouter.rollouter_window(
                version, str(slot), {"generating": 1.0}, capacity_seconds=2.0, busy_capacity_seconds=1.0
            )
            for slot in range(ROLLOUTERS)
        ]
        assert rollouter.post(*windows).rejected == 0
        assert trainer.post(*trainer.window(version, [{"reward": [4, 2.0, 0.0, 1.0, 0.5]}])).rejected == 0
    for _ in range(2):
        page = scrape_until(
            exporter.metrics,
            lambda page: page.value("asyncrl_versions_evicted_early_total", run="r") == VERSIONS - KEPT,
        )
        check_page(page.text, page.content_type)
        shown = page.by_label("asyncrl_version_complete", "param_version", run="r")
        assert sorted(map(int, shown)) == list(range(VERSIONS - KEPT + 1, VERSIONS + 1))
        assert sum("param_version" in dict(labels) for _, labels in page.samples) <= BUDGET
        exporter.stop(signal.SIGKILL)
        exporter = start_exporter("--series-budget", str(BUDGET), data_dir=exporter.data_dir)
