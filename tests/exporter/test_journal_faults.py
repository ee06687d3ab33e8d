"""A disk that is full, a journal whose tail is torn or whose body is damaged, and two exporters that want one."""

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter import otlp
from exporter.archive import Archive
from exporter.config import ExporterConfig
from exporter.errors import JournalUnavailable
from exporter.ingest import Ingest
from exporter.journal import Journal
from tests.exporter.conftest import StartExporter
from tests.exporter.test_cli import run_exporter
from tests.exporter.test_journal import wait_until
from tests.wire import WATCHDOG_SECONDS, Emitter, Scrape, scrape_until

DISK_BYTES = 12 * 1024 * 1024
FREE_PORTS = ("--listen", "127.0.0.1:0", "--otlp", "127.0.0.1:0")


# ---- a full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, so small that it can be filled."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(disk)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        assert not (os.environ.get("ASYNCRL_REQUIRE_ALL") and may_mount()), made.stderr
        pytest.skip(f"a small file system cannot be mounted: {made.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def may_mount() -> bool:
    """Whether this process has CAP_SYS_ADMIN: root in a container usually has not."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    capabilities = int(status.split("CapEff:")[1].split()[0], 16)
    return bool(capabilities >> 21 & 1)


def test_a_full_disk_is_503_with_retry_after_and_nothing_acknowledged_is_lost(
    start_exporter: StartExporter, small_disk: Path
) -> None:
    exporter = start_exporter(data_dir=small_disk / "data")
    trainer = Emitter(exporter.otlp)
    assert trainer.post(*trainer.window(1, [{"policy_loss": 1.0}])).status == 200
    ballast = small_disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError:
            pass
    version, statuses = 2, [200]
    while statuses[-1] == 200:  # what SQLite had reserved is used up
        spans = trainer.window(version, [{"policy_loss": float(version), "reward": 0.5}] * 20)
        answer = trainer.post(*spans)
        statuses.append(answer.status)
        version += statuses[-1] == 200
    assert (answer.status, answer.headers["retry-after"]) == (503, "5")
    assert requests.get(f"{exporter.metrics}/readyz", timeout=WATCHDOG_SECONDS).status_code == 503
    assert Scrape(exporter.metrics).value("asyncrl_param_version", run="r") == version - 1

    exporter.stop(signal.SIGKILL)  # and not even a crash in that state loses what was acknowledged
    ballast.unlink()
    exporter = start_exporter(data_dir=small_disk / "data")
    trainer.url = exporter.otlp
    assert Scrape(exporter.metrics).value("asyncrl_param_version", run="r") == version - 1
    assert trainer.post(*spans).status == 200
    page = scrape_until(
        exporter.metrics, lambda page: page.value("asyncrl_param_version", run="r") == version
    )
    assert page.value("asyncrl_versions_sealed_total", run="r", complete="true") == version
    assert page.value("asyncrl_train_steps_total", run="r") == 1 + 20 * (version - 1)


def test_a_disk_that_has_room_again_takes_what_it_refused_without_a_restart(
    start_exporter: StartExporter, small_disk: Path
) -> None:
    exporter = start_exporter(data_dir=small_disk / "data")
    trainer = Emitter(exporter.otlp)
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"\0" * (DISK_BYTES - 512 * 1024))
    refused = 0
    for version in range(1, 61):
        spans = trainer.window(version, [{"policy_loss": float(version)}] * 20)
        deadline = time.monotonic() + WATCHDOG_SECONDS
        while trainer.post(*spans).status != 200:
            refused += 1
            assert time.monotonic() < deadline, "the journal is never writable again"
            if refused >= 3 and ballast.exists():
                ballast.unlink()
            time.sleep(0.05)
    assert refused >= 3
    page = scrape_until(
        exporter.metrics,
        lambda page: page.value("asyncrl_versions_sealed_total", run="r", complete="true") == 60,
    )
    assert page.value("asyncrl_train_steps_total", run="r") == 1200
    assert page.value("asyncrl_rejected_records_total", run="r", reason="duplicate_step") == 0


def test_a_disk_that_has_room_again_makes_the_exporter_ready_before_anybody_sends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest, trainer, write = Ingest.open(ExporterConfig(data_dir=tmp_path)), Emitter(""), Journal.write
    full = True

    def take(journal: Journal, *rows: Any) -> None:
        if full:
            raise sqlite3.OperationalError("database or disk is full")
        write(journal, *rows)

    monkeypatch.setattr(Journal, "write", take)
    body = trainer.request(trainer.train_step(1, 1)).SerializeToString()
    with pytest.raises(JournalUnavailable):
        asyncio.run(ingest.submit("traces", body, otlp.decode("traces", body)))
    assert not ingest.ready
    full = False
    wait_until(lambda: ingest.ready)
    ingest.close()


# ---- a folder that takes nothing from the reader


def test_the_history_is_read_from_a_folder_that_the_reader_may_not_write_to(small_disk: Path) -> None:
    ingest, trainer = Ingest.open(ExporterConfig(data_dir=small_disk)), Emitter("")
    body = trainer.request(*trainer.window(1, [{"policy_loss": 1.0}])).SerializeToString()
    asyncio.run(ingest.submit("traces", body, otlp.decode("traces", body)))
    wait_until(lambda: ingest.snapshot.runs["r"].window)
    ingest.close()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert Archive.open(small_disk).newest() == {"r": (1, 1)}


# ---- a journal that is deleted or replaced


def test_a_journal_deleted_under_the_exporter_is_503_and_nothing_is_acknowledged(
    start_exporter: StartExporter,
) -> None:
    exporter = start_exporter()
    trainer = Emitter(exporter.otlp)
    assert trainer.post(*trainer.window(1, [{"policy_loss": 1.0}])).status == 200
    for file in exporter.data_dir.glob("journal.sqlite*"):
        file.unlink()
    assert trainer.post(*trainer.window(2, [{"policy_loss": 2.0}])).status == 503
    for path in ("/readyz", "/api/v1/runs", "/api/v1/runs/r/versions"):
        answer = requests.get(exporter.metrics + path, timeout=WATCHDOG_SECONDS)
        assert answer.status_code == 503, path
    assert Scrape(exporter.metrics).value("asyncrl_param_version", run="r") == 1
    code, said = exporter.stop()
    assert (code, "Traceback" in said) == (0, False), said
    assert "was deleted or replaced" in said
    assert str(exporter.data_dir) in said


# ---- a torn tail


@dataclass
class Written:
    """A journal as SIGKILL leaves it. `sizes[k]` is how long its log was when k requests had been acknowledged."""

    directory: Path
    bodies: list[bytes]
    sizes: list[int]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    live, copy = tmp_path_factory.mktemp("live"), tmp_path_factory.mktemp("copies") / "data"
    ingest = Ingest.open(ExporterConfig(data_dir=live))
    log = live / "journal.sqlite-wal"
    trainer = Emitter("")
    bodies, sizes = [], [log.stat().st_size]
    for step in range(1, 13):
        span = trainer.train_step(1, step, values={"policy_loss": 1.0}, sample_count=8)
        body = trainer.request(span).SerializeToString()
        asyncio.run(ingest.submit("traces", body, otlp.decode("traces", body)))
        bodies.append(body)
        sizes.append(log.stat().st_size)
    shutil.copytree(live, copy)
    ingest.close()
    return Written(copy, bodies, sizes)


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(0, 4120 * 40))
def test_a_torn_tail_costs_the_torn_records_and_no_other(written: Written, cut: int) -> None:
    cut = min(cut, written.sizes[-1])
    with tempfile.TemporaryDirectory() as place:
        data = shutil.copytree(written.directory, Path(place) / "data")
        os.truncate(data / "journal.sqlite-wal", cut)
        journal = Journal.open(data)
        _, events = journal.load()
        torn = journal.torn_frames
        journal.close()
    whole = [size for size in written.sizes if size <= cut]
    kept = max(len(whole) - 1, 0)
    assert [event.body for event in events] == written.bodies[:kept]
    assert bool(torn) == (cut not in (0, *written.sizes)) or cut < written.sizes[0]


def test_a_torn_tail_is_said_in_the_log_and_a_counter_and_its_records_are_taken_again(
    start_exporter: StartExporter,
) -> None:
    exporter = start_exporter()
    assert Scrape(exporter.metrics).value("asyncrl_exporter_journal_torn_frames_total") == 0
    trainer = Emitter(exporter.otlp)
    windows = [trainer.window(version, [{"policy_loss": float(version)}]) for version in (1, 2, 3)]
    for spans in windows:
        assert trainer.post(*spans).rejected == 0
    exporter.stop(signal.SIGKILL)
    log = exporter.data_dir / "journal.sqlite-wal"
    os.truncate(log, log.stat().st_size - 100)
    exporter = start_exporter(data_dir=exporter.data_dir)
    page = Scrape(exporter.metrics)
    torn = page.value("asyncrl_exporter_journal_torn_frames_total")
    assert torn is not None
    assert torn >= 1, "the pages of the newest transaction"
    assert page.value("asyncrl_train_steps_total", run="r") == 3  # what was torn is the newest decision
    trainer.url = exporter.otlp
    for spans in windows:
        assert trainer.post(*spans).rejected == 0
    page = scrape_until(
        exporter.metrics,
        lambda page: page.value("asyncrl_versions_sealed_total", run="r", complete="true") == 3,
    )
    assert page.value("asyncrl_train_steps_total", run="r") == 3
    said = exporter.stop()[1]
    assert [
        line
        for line in said.splitlines()
        if 'event="journal tail torn"' in line and f"frames={torn:.0f}" in line
    ]


# ---- a damaged body, and company


@pytest.mark.parametrize("where", ["head", "first page", "table"])
def test_a_damaged_journal_is_one_line_and_exit_code_2(
    start_exporter: StartExporter, tmp_path: Path, where: str
) -> None:
    exporter = start_exporter()
    trainer = Emitter(exporter.otlp)
    for version in range(1, 9):
        assert trainer.post(*trainer.window(version, [{"policy_loss": 1.0}])).rejected == 0
    assert exporter.stop()[0] == 0
    path = exporter.data_dir / "journal.sqlite"
    with sqlite3.connect(path) as journal:
        page_bytes = journal.execute("PRAGMA page_size").fetchone()[0]
        root = journal.execute("SELECT rootpage FROM sqlite_master WHERE name = 'checkpoint'").fetchone()[0]
    journal.close()
    start = {"head": 0, "first page": 100, "table": (root - 1) * page_bytes}[where]
    with path.open("r+b") as file:
        file.seek(start)
        file.write(b"\xee" * 64)
    done = run_exporter("--data-dir", str(exporter.data_dir), *FREE_PORTS)
    assert done.returncode == 2
    complaints = [line for line in done.stderr.splitlines() if not line.startswith("time=")]
    assert len(complaints) == 1, done.stderr
    assert str(path) in complaints[0]
    assert "Traceback" not in done.stderr


def test_a_second_exporter_on_the_same_data_directory_is_one_line_and_exit_code_2(
    start_exporter: StartExporter,
) -> None:
    exporter = start_exporter()
    trainer = Emitter(exporter.otlp)
    assert trainer.post(*trainer.window(1, [{"policy_loss": 1.0}])).rejected == 0
    done = run_exporter("--data-dir", str(exporter.data_dir), *FREE_PORTS)
    assert done.returncode == 2
    assert [line for line in done.stderr.splitlines() if "another exporter uses the data directory" in line]
    assert "Traceback" not in done.stderr
    assert trainer.post(*trainer.window(2, [{"policy_loss": 2.0}])).rejected == 0
    scrape_until(exporter.metrics, lambda page: page.value("asyncrl_policy_loss", run="r") == 2.0)
