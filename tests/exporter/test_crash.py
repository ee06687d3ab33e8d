"""SIGKILL at random points under load: after every restart the ledger, the page and the history are exactly what an
independent recomputation makes of the acknowledged requests."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.exporter.conftest import ROOT, StartedExporter, StartExporter
from tests.exporter.crash_load import RUNS, Load
from tests.page import check_page
from tests.wire import WATCHDOG_SECONDS, Scrape

SHORT_KILLS = 6
SOAK_KILLS = int(os.environ.get("ASYNCRL_KILLS", "500"))
KILLS_PER_ATTEMPT = 4
CHECKPOINTS_OFTEN = ("--retention-days", "0.0001", "--grace", "100000")
"""A tenth of the retention is the time between checkpoints: 0.9 s. No run ends, so nothing expires."""


def history(exporter: StartedExporter, run: str) -> list[dict[str, Any]]:
    """All versions of the run, page by page."""
    versions: list[dict[str, Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        url = f"{exporter.metrics}/api/v1/runs/{run}/versions"
        query = {"cursor": cursor, "limit": "1000"}
        answer = requests.get(url, params=query, timeout=WATCHDOG_SECONDS).json()
        versions += answer["versions"]
        cursor = answer["next"]
    return versions


def kill_and_compare(start_exporter: StartExporter, data_dir: Path, kills: int, seed: int) -> Load:
    chance, load = random.Random(seed), Load(seed)
    exporter = start_exporter(*CHECKPOINTS_OFTEN, data_dir=data_dir)
    load.url = exporter.otlp
    for kill in range(1, kills + 1):
        time.sleep(chance.uniform(0.0, 0.4))
        if chance.random() < 0.2:  # in the middle of an orderly end, or of its last checkpoint
            exporter.process.send_signal(signal.SIGTERM)
            time.sleep(chance.uniform(0.0, 0.3))
        exporter.stop(signal.SIGKILL)
        if chance.random() < 0.2:
            kill_while_it_starts(data_dir, chance.uniform(0.2, 1.5))
        exporter = start_exporter(*CHECKPOINTS_OFTEN, data_dir=data_dir)
        load.url = exporter.otlp
        compare(load, exporter, kill)
        if kill % KILLS_PER_ATTEMPT == 0:
            load.resume()
    load.stop()
    compare(load, exporter, kills)
    compare_journal(load, exporter)
    return load


def kill_while_it_starts(data_dir: Path, after_seconds: float) -> None:
    """A start that reads the journal back, or has not come so far, or is there already."""
    command = [sys.executable, "-P", "-m", "exporter", "--listen", "127.0.0.1:0", "--otlp", "127.0.0.1:0"]
    started = subprocess.Popen(
        [*command, "--data-dir", str(data_dir), *CHECKPOINTS_OFTEN],
        env={"PYTHONPATH": str(ROOT)},
        stderr=subprocess.DEVNULL,
    )
    time.sleep(after_seconds)
    started.kill()
    started.wait()


def compare(load: Load, exporter: StartedExporter, kill: int) -> None:
    """Page and history against the truth, while nothing is on its way."""
    with load.quiet():
        assert load.refused == []
        page = Scrape(exporter.metrics)
        check_page(page.text, page.content_type)
        for run in RUNS:
            if run not in load.truth.runs:
                continue
            expected = load.truth.samples(run)
            shown = {series: page.samples.get(series) for series in expected}
            assert shown == expected, f"the page of run {run} after kill {kill}"
            rows = load.truth.history(run)
            said = history(exporter, run)
            for row, wanted in zip(said, rows, strict=False):
                assert row == wanted, f"the history of run {run} after kill {kill}"
            assert len(said) == len(rows), f"the history of run {run} after kill {kill}"
            compare_page_with_rows(load, page, run, rows)


def compare_page_with_rows(load: Load, page: Scrape, run: str, rows: list[dict[str, Any]]) -> None:
    buckets = page.by_label("asyncrl_reward_bucket", "le", run=run)
    cumulative = [buckets[bound] for bound in sorted(buckets, key=float)]
    counts = [after - before for before, after in zip([0.0, *cumulative], cumulative, strict=False)]
    assert counts == load.truth.runs[run].buckets
    wanted = {
        (str(row["attempt"]), str(row["param_version"])): row["metrics"]["policy_loss"]
        for row in rows
        if row["metrics"]
    }
    shown = {
        (dict(labels)["attempt"], dict(labels)["param_version"]): value
        for (name, labels), value in page.samples.items()
        if name == "asyncrl_version_policy_loss" and ("run", run) in labels
    }
    assert shown.items() <= wanted.items()
    stride = page.value("asyncrl_window_stride_versions", run=run)
    assert stride is not None
    of_stride = [key for key in wanted if int(key[1]) % stride == 0]  # many versions share the series budget
    assert {*of_stride[-15:], *list(wanted)[-1:]} <= set(shown)


def compare_journal(load: Load, exporter: StartedExporter) -> None:
    """What the stopped exporter leaves: every version once, and of every source every number it ever sent."""
    assert exporter.stop()[0] == 0
    with sqlite3.connect(exporter.data_dir / "journal.sqlite") as journal:
        assert journal.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        stored = journal.execute("SELECT run, attempt, version FROM versions ORDER BY 1, 2, 3").fetchall()
    journal.close()
    assert stored == [
        (run, row["attempt"], row["param_version"]) for run in RUNS for row in load.truth.history(run)
    ]
    from exporter.journal import Journal

    opened = Journal.open(exporter.data_dir)
    state, events = opened.load()
    opened.close()
    assert [event.kind for event in events] == []
    for run in state.runs.values():
        for source_id, life in run.sources.items():
            seqs = load.truth.lives[source_id].seqs
            assert (life.received.last, list(life.received.gaps(1, life.received.last))) == (len(seqs), [])


def test_after_every_kill_ledger_page_and_history_are_what_was_acknowledged(
    start_exporter: StartExporter, tmp_path: Path
) -> None:
    load = kill_and_compare(start_exporter, tmp_path / "data", SHORT_KILLS, seed=20)
    assert load.unanswered >= SHORT_KILLS, "kills met requests that were on their way"


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_soak_after_every_one_of_500_kills_ledger_page_and_history_are_what_was_acknowledged(
    start_exporter: StartExporter, tmp_path: Path
) -> None:
    load = kill_and_compare(start_exporter, tmp_path / "data", SOAK_KILLS, seed=SOAK_KILLS)
    assert load.unanswered >= SOAK_KILLS
    versions = sum(len(load.truth.history(run)) for run in RUNS)
    print(f"{SOAK_KILLS} kills, {versions} versions, {load.unanswered} requests sent again")
