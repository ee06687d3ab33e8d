"""A run that has left the page: history has it, late annexes reach it, and a resume is its next attempt."""

import signal
from typing import Any

import requests

from tests.exporter.conftest import StartedExporter, StartExporter
from tests.page import check_page
from tests.wire import WATCHDOG_SECONDS, Emitter, Scrape, scrape_until


def get(exporter: StartedExporter, path: str) -> Any:
    answer = requests.get(f"{exporter.metrics}/api/v1/runs{path}", timeout=WATCHDOG_SECONDS)
    answer.raise_for_status()
    return answer.json()


def gone(page: Scrape) -> bool:
    return not page.by_label("asyncrl_run_attempt", "run")


def test_a_run_that_left_the_page_is_in_history_and_its_stragglers_begin_no_other(
    start_exporter: StartExporter,
) -> None:
    exporter = start_exporter("--finished-run-grace", "0")
    trainer = Emitter(exporter.otlp)
    rollouter = Emitter(exporter.otlp, role="rollouter", source="r0")
    assert trainer.post(*trainer.window(1, [{"policy_loss": 1.0}]), trainer.run_end(1)).rejected == 0
    scrape_until(exporter.metrics, gone)
    for ending in (signal.SIGKILL, signal.SIGTERM, None):
        (run,) = get(exporter, "")["runs"]
        assert (run["run"], run["status"], run["param_version"]) == ("r", "completed", 1)
        slot = {"asyncrl.rollouter": "0"}
        assert rollouter.post_metrics(rollouter.gauge("asyncrl.rollouter.decoding", 1, slot)).status == 200
        assert trainer.post(trainer.span("validation", 1, values={"exact_match_ratio": 0.5})).rejected == 0
        (version,) = get(exporter, "/r/versions")["versions"]
        assert version["annexes"]["validation"]["metrics"] == {"exact_match_ratio": 0.5}
        assert gone(Scrape(exporter.metrics))
        if ending is not None:
            exporter.stop(ending)
            exporter = start_exporter("--finished-run-grace", "0", data_dir=exporter.data_dir)
            trainer.url = rollouter.url = exporter.otlp


def test_a_resume_of_a_run_that_left_the_page_is_its_next_attempt(start_exporter: StartExporter) -> None:
    exporter = start_exporter("--finished-run-grace", "0")
    trainer = Emitter(exporter.otlp)
    for version in (1, 2):
        trainer.post(*trainer.window(version, [{"policy_loss": float(version)}]))
    trainer.post(trainer.run_end(2, "stopped"))
    scrape_until(exporter.metrics, gone)
    exporter.stop(signal.SIGKILL)
    exporter = start_exporter(data_dir=exporter.data_dir)
    again = Emitter(exporter.otlp, source="t1")
    assert again.post(again.weight_sync(1, 0), *again.window(2, [{"policy_loss": 2.5}])).rejected == 0
    page = scrape_until(exporter.metrics, lambda page: page.value("asyncrl_policy_loss", run="r") == 2.5)
    assert page.value("asyncrl_run_attempt", run="r") == 2
    assert page.value("asyncrl_train_steps_total", run="r") == 3
    assert page.value("asyncrl_run_status", run="r", status="running") == 1
    check_page(page.text, page.content_type)
    said = [(each["attempt"], each["param_version"]) for each in get(exporter, "/r/versions")["versions"]]
    assert said == [(1, 1), (1, 2), (2, 2)]
