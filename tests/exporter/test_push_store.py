"""OTLP push into a real store: VictoriaMetrics keeps, and shows, every sample that it was sent."""

import signal
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import pytest
import requests

from tests.exporter.conftest import StartedExporter, StartExporter
from tests.victoria_metrics import VictoriaMetrics, run_victoria_metrics
from tests.wire import WATCHDOG_SECONDS, Emitter, scrape_until

RUNS = ("one", 'two "quoted" \\ {run}')


def post(trainers: Sequence[Emitter], exporter: StartedExporter, versions: range) -> None:
    for version in versions:
        for trainer in trainers:
            trainer.url = exporter.otlp
            values = {"policy_loss": version / 8, "reward": [4, 2.0 * version, 0.0, float(version), 1.0]}
            answer = trainer.post(*trainer.window(version, [values]))
            assert (answer.status, answer.rejected) == (200, 0), answer.reason


def wait_until_pushed(exporter: StartedExporter) -> None:
    scrape_until(exporter.metrics, lambda page: page.value("asyncrl_exporter_push_queue") == 0)


def wait_until_failing(exporter: StartedExporter) -> None:
    scrape_until(
        exporter.metrics,
        lambda page: page.value("asyncrl_exporter_push_requests_total", status="none"),
    )


def check_store(store: VictoriaMetrics, exporter: StartedExporter, run: str, last: int) -> None:
    """Every version of the history at its time, once; nothing else."""
    answer = requests.get(
        f"{exporter.metrics}/api/v1/runs/{quote(run)}/versions", timeout=WATCHDOG_SECONDS
    ).json()
    assert len(answer["versions"]) == last
    expected = {
        round(version["timestamp"] * 1e9) // 1_000_000: {
            "asyncrl_policy_loss": version["metrics"]["policy_loss"],
            "asyncrl_reward_mean": version["metrics"]["reward"]["mean"],
            "asyncrl_reward_max": version["metrics"]["reward"]["max"],
            "asyncrl_param_version": version["param_version"],
            "asyncrl_version_complete": 1,
        }
        for version in answer["versions"]
    }
    stored = {
        labels: series
        for labels, series in store.samples('{__name__=~"asyncrl_.*"}').items()
        if dict(labels)["run"] == run
    }
    names = [dict(labels)["__name__"] for labels in stored]
    assert len(names) == len(set(names)), "one series for each metric of a run"
    for labels, series in stored.items():
        name = dict(labels)["__name__"]
        assert list(series) == sorted(expected), name
        assert all(len(samples) == 1 for samples in series.values()), name
        if name in next(iter(expected.values())):
            assert {at: samples[0] for at, samples in series.items()} == {
                at: values[name] for at, values in expected.items()
            }
    assert set(names) > next(iter(expected.values())).keys()


@pytest.mark.peer
def test_a_store_has_every_version_of_two_runs_once_over_outages_and_restarts(
    start_exporter: StartExporter, tmp_path: Path
) -> None:
    trainers = [Emitter("", run=run, source=f"trainer of {run}") for run in RUNS]
    with run_victoria_metrics(tmp_path) as store:
        exporter = start_exporter("--push", store.otlp)
        post(trainers, exporter, range(1, 21))
        wait_until_pushed(exporter)
        for run in RUNS:
            check_store(store, exporter, run, 20)
    post(trainers, exporter, range(21, 61))  # the store is away
    wait_until_failing(exporter)
    exporter.stop(signal.SIGKILL)
    exporter = start_exporter("--push", store.otlp, data_dir=exporter.data_dir)
    wait_until_failing(exporter)
    with run_victoria_metrics(tmp_path, port=int(store.url.rpartition(":")[2])) as store:
        post(trainers, exporter, range(61, 81))
        wait_until_pushed(exporter)
        for run in RUNS:
            check_store(store, exporter, run, 80)
        exporter.stop(signal.SIGTERM)
        exporter = start_exporter("--push", store.otlp, data_dir=exporter.data_dir)
        post(trainers, exporter, range(81, 91))
        wait_until_pushed(exporter)
        for run in RUNS:
            check_store(store, exporter, run, 90)
