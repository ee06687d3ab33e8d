"""A real Prometheus scrapes a run whose versions finish several times between two scrapes."""

import time
from pathlib import Path

from tests.exporter.conftest import StartExporter
from tests.page import check_page
from tests.prometheus import check_metrics, run_prometheus
from tests.wire import Emitter, Scrape

VERSIONS = 125
VERSION_SECONDS = 0.08
SCRAPE_SECONDS = 0.5


def test_every_version_arrives_although_several_finish_between_two_scrapes(
    start_exporter: StartExporter, tmp_path: Path
) -> None:
    exporter = start_exporter()
    with run_prometheus(tmp_path, [exporter.metrics], interval_seconds=SCRAPE_SECONDS) as prometheus:
        trainer = Emitter(exporter.otlp)
        trainer.post(trainer.weight_sync(0, 0))
        prometheus.wait_for("asyncrl_param_version")
        for version in range(1, VERSIONS + 1):
            trainer.post(
                *trainer.window(version, [{"policy_loss": version + 0.125 * part} for part in range(4)])
            )
            time.sleep(VERSION_SECONDS)
        page = Scrape(exporter.metrics)
        prometheus.wait_for(f'asyncrl_version_complete{{param_version="{VERSIONS}"}}')
        kept = prometheus.query("last_over_time(asyncrl_version_policy_loss[10m])")
        latest_only = prometheus.query("asyncrl_policy_loss[10m]")
    values = {int(series["metric"]["param_version"]): float(series["value"][1]) for series in kept}
    assert values == {version: version + 0.1875 for version in range(1, VERSIONS + 1)}
    seen = {value for _, value in latest_only[0]["values"]}
    assert len(seen) < VERSIONS / 2, "the versions must outrun the scrapes, or this test shows nothing"
    assert check_metrics(page.text) == ""
    check_page(page.text, page.content_type)
