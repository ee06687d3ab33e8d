"""The journal over time: older and newer schemas, network storage, disk that fills and is given back; and the log."""

import resource
import shlex
import signal
import sqlite3
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import pytest
import requests

from exporter.state import State
from tests.exporter.conftest import StartedExporter, StartExporter
from tests.exporter.test_cli import run_exporter
from tests.wire import WATCHDOG_SECONDS, Emitter, Scrape, scrape_until

SCHEMA_1 = Path(__file__).parent / "journals" / "schema_1.sql"


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + WATCHDOG_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never came to be as awaited"
        time.sleep(0.05)


def events(said: str, event: str) -> list[dict[str, str]]:
    """The facts of the log lines of one event."""
    marker = f'event="{event}"' if " " in event else f"event={event}"
    lines = [line for line in said.splitlines() if f" {marker}" in line]
    return [dict(fact.split("=", 1) for fact in shlex.split(line.split(marker)[1])) for line in lines]


def has_published(version: int, page: Scrape) -> bool:
    return page.value("asyncrl_policy_loss", run="good") == version


def test_a_journal_of_the_first_schema_opens_and_goes_on(
    start_exporter: StartExporter, tmp_path: Path
) -> None:
    data = tmp_path / "old"
    data.mkdir()
    with sqlite3.connect(data / "journal.sqlite") as journal:
        journal.executescript(SCHEMA_1.read_text(encoding="utf-8"))
    journal.close()
    exporter = start_exporter("--grace", "1", data_dir=data)
    page = Scrape(exporter.metrics)
    assert page.by_label("asyncrl_version_policy_loss", "param_version", run="old") == {
        str(version): version + 0.5 for version in range(1, 5)
    }
    assert page.value("asyncrl_train_steps_total", run="old") == 5.0  # one of them in an open window
    assert (
        page.value("asyncrl_version_rollouter_idle_ratio", run="old", attempt=1, param_version=4, rollouter=0)
        == 0.25
    )
    trainer = Emitter(exporter.otlp, run="old", source="t0", attempt=1)
    trainer.seq = 10
    assert trainer.post(trainer.weight_sync(5, 1, [])).rejected == 0
    scrape_until(exporter.metrics, lambda page: page.value("asyncrl_policy_loss", run="old") == 9.0)


def test_a_run_that_cannot_be_judged_costs_no_other_one(start_exporter: StartExporter) -> None:
    first = start_exporter()
    broken = Emitter(first.otlp, run="broken")
    assert broken.post(broken.train_step(1, 1)).rejected == 0
    assert first.stop()[0] == 0
    with sqlite3.connect(first.data_dir / "journal.sqlite") as journal:
        ((body,),) = journal.execute("SELECT body FROM checkpoint")
        state = msgspec.msgpack.decode(body, type=State)
        state.runs["broken"].sources.clear()  # its open window now names a source that nobody knows
        journal.execute("UPDATE checkpoint SET body = ?", (msgspec.msgpack.encode(state),))
    journal.close()
    exporter = start_exporter(data_dir=first.data_dir)
    good = Emitter(exporter.otlp, run="good")
    for version in (1, 2):
        assert good.post(*good.window(version, [{"policy_loss": float(version)}])).rejected == 0
        scrape_until(exporter.metrics, partial(has_published, version))
    assert requests.get(f"{exporter.metrics}/readyz", timeout=WATCHDOG_SECONDS).status_code == 200
    code, said = exporter.stop()
    assert (code, said.count("cannot be looked after")) == (0, 1)


def test_a_journal_of_a_newer_schema_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "journal.sqlite") as journal:
        journal.execute("PRAGMA user_version = 99")
    journal.close()
    before = (tmp_path / "journal.sqlite").read_bytes()
    done = run_exporter("--data-dir", str(tmp_path), "--listen", "127.0.0.1:0", "--otlp", "127.0.0.1:0")
    assert done.returncode == 2
    assert done.stderr == (
        f"asyncrl exporter: cannot open the journal {tmp_path}/journal.sqlite: it has schema 99, "
        "this exporter knows 1; use a newer exporter\n"
    )
    assert (tmp_path / "journal.sqlite").read_bytes() == before


def test_the_rollback_mode_survives_a_kill_without_shared_memory(start_exporter: StartExporter) -> None:
    exporter = start_exporter("--journal-mode", "rollback")
    trainer = Emitter(exporter.otlp)
    for version in (1, 2, 3):
        trainer.post(*trainer.window(version, [{"policy_loss": float(version)}]))
    scrape_until(exporter.metrics, lambda page: page.value("asyncrl_policy_loss", run="r") == 3.0)
    assert requests.get(f"{exporter.metrics}/api/v1/runs/r/versions", timeout=WATCHDOG_SECONDS).ok
    assert {file.name for file in exporter.data_dir.iterdir()} == {"journal.sqlite", "lock"}
    exporter.stop(signal.SIGKILL)
    for mode in ("rollback", "wal"):
        again = start_exporter("--journal-mode", mode, data_dir=exporter.data_dir)
        assert Scrape(again.metrics).by_label("asyncrl_version_policy_loss", "param_version", run="r") == {
            "1": 1.0,
            "2": 2.0,
            "3": 3.0,
        }
        again.stop()


def test_retention_gives_the_disk_back_without_a_restart(start_exporter: StartExporter) -> None:
    flags = ("--retention-days", str(4 / 86_400), "--finished-run-grace", "0", "--grace", "0.5")
    exporter = start_exporter(*flags)
    trainer = Emitter(exporter.otlp)
    values = {f"metric_{number}": float(number) for number in range(250)}
    for first in range(1, 401, 50):
        spans = [trainer.window(version, [values]) for version in range(first, first + 50)]
        trainer.post(*(span for window in spans for span in window))

    def disk_bytes() -> int:
        return sum(file.stat().st_size for file in exporter.data_dir.iterdir())

    most = disk_bytes()
    trainer.post(trainer.run_end(400))
    wait_until(lambda: disk_bytes() < most / 10)
    answer = requests.get(f"{exporter.metrics}/api/v1/runs", timeout=WATCHDOG_SECONDS).json()
    assert answer["runs"] == []
    assert Scrape(exporter.metrics).value("asyncrl_exporter_journal_bytes") == pytest.approx(
        disk_bytes(), rel=0.5
    )
    assert most > 2_000_000


def test_what_is_lost_is_logged_and_nothing_is_logged_per_record(start_exporter: StartExporter) -> None:
    exporter = start_exporter("--grace", "0.3", "--abandon-after", "1.5")
    trainer = Emitter(exporter.otlp)
    for version in range(1, 51):
        trainer.post(*trainer.window(version, [{"policy_loss": 1.0}]))
    trainer.seq += 2
    for version in range(51, 61):
        trainer.post(*trainer.window(version, [{"policy_loss": 1.0}], rollouters=["7"]))
    scrape_until(
        exporter.metrics, lambda page: page.value("asyncrl_run_status", run="r", status="lost") == 1.0
    )
    _, said = exporter.stop()
    (lost,) = events(said, "records lost")
    assert lost == {"run": "r", "source": "t0", "seqs": "101..102"}
    (incomplete,) = events(said, "sealed incomplete")
    assert incomplete | {"reasons": ""} == {"run": "r", "attempt": "1", "param_version": "51", "reasons": ""}
    assert set(incomplete["reasons"].split(",")) == {"lost_records", "missing_rollouter"}
    (given_up,) = events(said, "run lost")
    assert given_up["run"] == "r"
    ours = [
        line for line in said.splitlines() if "seconds" not in line
    ]  # asyncio's debug mode says what is slow
    assert len(ours) < 12, "for 122 records, 10 of them of incomplete versions"


def test_a_full_disk_is_logged_once_and_its_end_once(start_exporter: StartExporter) -> None:
    exporter = start_exporter()
    trainer = Emitter(exporter.otlp)
    soft, hard = resource.prlimit(exporter.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(exporter.process.pid, resource.RLIMIT_FSIZE, (4096, hard))
    spans = trainer.window(1, [{"policy_loss": 1.0}])
    for _ in range(5):
        answer = trainer.post(*spans)
        assert (answer.status, answer.headers["retry-after"]) == (503, "5")
    resource.prlimit(exporter.process.pid, resource.RLIMIT_FSIZE, (soft, hard))
    wait_until(lambda: trainer.post(*spans).status == 200)
    assert scrape_until(exporter.metrics, lambda page: page.value("asyncrl_policy_loss", run="r") == 1.0)
    _, said = exporter.stop()
    assert len(events(said, "journal error")) == len(events(said, "journal writable again")) == 1


def test_every_event_of_the_log_is_one_line(start_exporter: StartExporter) -> None:
    exporter: StartedExporter = start_exporter("--grace", "0.2")
    trainer = Emitter(exporter.otlp, run='line\nfeed "quoted" \u2028')
    trainer.post(*trainer.window(1, [{}], rollouters=["7"]))
    scrape_until(
        exporter.metrics,
        lambda page: (
            "asyncrl_versions_incomplete" in page.text
            and page.by_label("asyncrl_version_complete", "param_version")
        ),
    )
    _, said = exporter.stop()
    (line,) = [line for line in said.split("\n") if "sealed incomplete" in line]
    assert r'run="line\nfeed \"quoted\" \u2028" attempt=1' in line
