"""Cases from the field: what a sender could not deliver is a number on the page."""

import signal

from runtime.telemetry import schema
from runtime.telemetry.config import Identity, TelemetryConfig
from runtime.telemetry.emitter import Telemetry
from tests.exporter.conftest import StartedExporter
from tests.page import check_page
from tests.wire import WATCHDOG_SECONDS, Scrape, scrape_until

BURST = 5000


def test_c54_dropped_is_offered_minus_received_and_stands_on_the_page(exporter: StartedExporter) -> None:
    config = TelemetryConfig(
        endpoints=(exporter.otlp,),
        buffer_spans=500,
        flush_interval_seconds=0.01,
        metrics_interval_seconds=0.1,
    )
    telemetry = Telemetry(config, Identity(run_id="r", role="trainer"))
    exporter.process.send_signal(signal.SIGSTOP)  # it accepts, and answers nobody
    for step in range(1, BURST + 1):
        telemetry.control(
            schema.TRAIN_STEP, param_version=1, start_ns=1, end_ns=2, attributes={schema.STEP: step}
        )
    exporter.process.send_signal(signal.SIGCONT)
    assert telemetry.flush(WATCHDOG_SECONDS)
    stats = telemetry.stats()
    assert stats.dropped["control"] >= BURST - 500 - 2 * config.batch_spans
    assert stats.sent + stats.dropped["control"] == BURST

    def dropped(page: Scrape) -> float | None:
        return page.value("asyncrl_telemetry_dropped_total", run="r", kind="control")

    page = scrape_until(exporter.metrics, lambda page: dropped(page) == stats.dropped["control"])
    assert page.value("asyncrl_train_steps_total", run="r") == stats.sent
    check_page(page.text, page.content_type)
    telemetry.shutdown(WATCHDOG_SECONDS)
