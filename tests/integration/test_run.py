"""`asyncrl run` as its users meet it: a process of its own, its exit code, its files, and nothing left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from runtime.telemetry import schema
from tests.otlp_sink import OtlpSink
from tests.page import check_page
from tests.processes import alive, descendants, find
from tests.wire import scrape_until

WATCHDOG_SECONDS = 200.0
SMALL = (
    "run_id=small",
    "steps_per_version=2",
    "required_samples=4",
    "group_size=2",
    "engine.capacity_responses=16",
)
ROOT = Path(__file__).parents[2]


class Run:
    """One `asyncrl run`, in a process group of its own as a terminal would start it."""

    def __init__(self, tmp_path: Path, *assignments: str, reader: bool) -> None:
        self.folder = tmp_path / "small"
        self.output = tmp_path / "output"
        settings = (*SMALL, f"runs_dir={tmp_path}", *assignments)
        flags = [part for assignment in settings for part in ("--set", assignment)]
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "asyncrl", "run", *flags],
                stdout=output if reader else subprocess.PIPE,
                stderr=output,
                start_new_session=True,
                cwd=ROOT,
            )
        if self.process.stdout:
            self.process.stdout.close()  # as `| head` does
        self.children: set[int] = set()

    def wait(self) -> int:
        """The exit code. Remembers every process that the run has started."""
        deadline = time.monotonic() + WATCHDOG_SECONDS
        while self.process.poll() is None:
            self.children |= set(descendants(self.process.pid))
            assert time.monotonic() < deadline, self.output.read_text()
            time.sleep(0.1)
        return self.process.returncode

    def summary(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.folder / "summary.json").read_text())
        return document

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Returns when it holds; fails when the run has ended before."""
        while not condition():
            assert self.process.poll() is None, self.output.read_text()
            time.sleep(0.1)

    def left_behind(self, patience_seconds: float = 10.0) -> dict[int, str]:
        """The processes of the run that outlive it by more than the kernel takes to bury them."""
        deadline = time.monotonic() + patience_seconds
        while (left := alive(self.children)) and time.monotonic() < deadline:
            time.sleep(0.1)
        return left


@contextmanager
def start(tmp_path: Path, *assignments: str, reader: bool = True) -> Iterator[Run]:
    run = Run(tmp_path, *assignments, reader=reader)
    try:
        yield run
    finally:
        for pid in (run.process.pid, *run.children):
            if pid in alive([pid]):
                os.kill(pid, signal.SIGKILL)
        run.process.wait()


def test_completed_run_leaves_its_files_its_last_page_and_no_process(tmp_path: Path) -> None:
    free_ports = ("exporter.listen=127.0.0.1:0", "exporter.otlp=127.0.0.1:0")
    with start(tmp_path, "versions=3", "rollouters=2", *free_ports) as run:
        endpoints = run.folder / "endpoints.json"
        run.wait_for(endpoints.exists)
        url = json.loads(endpoints.read_text())["metrics"]
        completed = {"run": "small", "status": "completed"}
        page = scrape_until(url, lambda page: page.value("asyncrl_run_status", **completed) == 1.0)
        assert run.wait() == 0, run.output.read_text()
    said = run.output.read_text()
    stages = (
        "starting Ray",
        "starting the actors",
        "training has begun",
        "version 1/3",
        "ending the actors",
        "waiting",
    )
    assert sorted(stages, key=said.index) == list(stages), said
    check_page(page.text, page.content_type)
    summary = run.summary()
    assert (summary["status"], summary["versions_published"], summary["train_steps"]) == ("completed", 3, 6)
    account = summary["samples"]
    assert account["fed"] == sum(account[outcome] for outcome in schema.OUTCOMES)
    assert account["trained"] + account["filtered_zero_variance"] == 24
    assert page.value("asyncrl_param_version", run="small") == 3
    assert page.value("asyncrl_versions_sealed_total", run="small", complete="true") == 3
    assert page.value("asyncrl_samples_fed_total", run="small") == account["fed"]
    outcomes = page.by_label("asyncrl_samples_total", "outcome", run="small")
    assert outcomes == {outcome: account[outcome] for outcome in schema.OUTCOMES}
    assert yaml.safe_load((run.folder / "config.yaml").read_text())["rollouters"] == 2
    assert (run.folder / "journal").is_dir()
    assert "version 3/3" in said
    assert run.left_behind() == {}


def test_run_whose_reader_has_gone_trains_to_the_end_of_its_data_and_says_how_far_that_was(
    tmp_path: Path,
) -> None:
    with OtlpSink() as sink:
        settings = ("environment=tests.environments:Finite", f"telemetry.endpoints=[{sink.url}]")
        with start(tmp_path, *settings, reader=False) as run:
            assert run.wait() == 0, run.output.read_text()
    assert "the environment ended after 129 prompts: 16 of 80 versions" in run.output.read_text()
    summary = run.summary()
    assert (summary["status"], summary["versions_published"]) == ("completed", 16)
    assert run.left_behind() == {}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_stops_the_run_with_its_partial_window(tmp_path: Path, number: signal.Signals) -> None:
    with OtlpSink() as sink:
        settings = ("versions=1000000", "steps_per_version=1000000", f"telemetry.endpoints=[{sink.url}]")
        with start(tmp_path, *settings) as run:
            sink.wait_for(lambda: len(sink.named(schema.TRAIN_STEP)) > 2)
            # Ctrl-C reaches every process of the terminal's foreground group.
            send = os.killpg if number == signal.SIGINT else os.kill
            send(run.process.pid, number)
            assert run.wait() == 128 + number, run.output.read_text()
        steps = sink.named(schema.TRAIN_STEP)
        ends = {span.resource[schema.ROLE]: span.attributes for span in sink.named(schema.RUN_END)}
    assert "*** SIGTERM" not in run.output.read_text(), (
        "Ray's handler, which aborts what takes longer than 3 s"
    )
    assert run.summary()["status"] == "stopped"
    assert run.summary()["train_steps"] == len(steps)
    assert {end[schema.STATUS] for end in ends.values()} == {"stopped"}
    assert set(ends) == {schema.TRAINER, schema.ROLLOUTER_ROLE, schema.QUEUE}
    assert schema.STATE_SECONDS_PREFIX + "training" in ends[schema.TRAINER]
    assert run.left_behind() == {}


def test_killed_controller_takes_its_exporter_ray_and_all_actors_with_it(tmp_path: Path) -> None:
    free_ports = ("exporter.listen=127.0.0.1:0", "exporter.otlp=127.0.0.1:0")
    with start(tmp_path, "versions=1000000", *free_ports) as run:
        run.wait_for(lambda: "version 1/" in run.output.read_text())
        run.children = set(descendants(run.process.pid))
        commands = " ".join(alive(run.children).values())
        for part in (
            "-m exporter",
            "raylet",
            "gcs_server",
            "ray::Trainer",
            "ray::Rollouter",
            "ray::SampleQueue",
        ):
            assert part in commands
        run.process.kill()
        run.process.wait()
        # Ray's two agents first try for a minute to tell its dead head; they go then.
        run.children = {pid for pid, command in alive(run.children).items() if not command.endswith("Agent")}
        assert run.left_behind(WATCHDOG_SECONDS) == {}
    assert "stopped" in (run.folder / "exporter.log").read_text(), "it flushed and stopped in order"


def test_a_run_that_nobody_hears_says_so_at_once_and_neither_driver_nor_queue_pays_for_torch(
    tmp_path: Path,
) -> None:
    nobody = "http://127.0.0.1:9"
    with start(tmp_path, "versions=1000000", f"telemetry.endpoints=[{nobody}]") as run:
        run.wait_for(lambda: "version 1/" in run.output.read_text())
        pids = {"driver": run.process.pid, "queue": find(run.process.pid, "ray::SampleQueue")}
        pids["trainer"] = find(run.process.pid, "ray::Trainer")
        with_torch = [
            name for name, pid in pids.items() if "libtorch" in Path(f"/proc/{pid}/maps").read_text()
        ]
        said = run.output.read_text()
        run.process.terminate()
        assert run.wait() == 128 + signal.SIGTERM
    assert with_torch == ["trainer"]
    first = next(line for line in said.splitlines() if line.startswith("asyncrl run: telemetry of "))
    assert f" to {nobody}: /v1/" in first
    assert "ConnectionRefusedError" in first
    (last,) = [line for line in run.output.read_text().splitlines() if "was lost" in line]
    control = run.summary()["telemetry"]["dropped"]["control"]
    assert last.startswith(f"asyncrl run: telemetry to {nobody} was lost: {control} control spans")
    assert "ConnectionRefusedError" in last


def test_gpus_that_are_not_there_are_refused_not_waited_for(tmp_path: Path) -> None:
    settings = ("rollouters=1000", "resources.rollouter_gpus=1", "telemetry.endpoints=[http://127.0.0.1:9]")
    with start(tmp_path, *settings) as run:
        assert run.wait() == 2, run.output.read_text()
    *_, last = run.output.read_text().splitlines()
    assert last.startswith("asyncrl run: resources must ask for no more GPUs than there are, got 1000 in all")
    assert run.left_behind() == {}


def test_failed_run_says_why_and_exits_1(tmp_path: Path) -> None:
    with start(
        tmp_path, "environment=tests.environments:AllBad", "telemetry.endpoints=[http://127.0.0.1:9]"
    ) as run:
        assert run.wait() == 1
    output = run.output.read_text()
    assert "failed: rollouter 0: EnvironmentFailedError: 32 samples in a row" in output
    assert "ValueError: no verifier installed" in output
    assert run.summary()["status"] == "failed"
    assert "Traceback" in (run.folder / "failure.log").read_text()
    assert run.left_behind() == {}
