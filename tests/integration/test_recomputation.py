"""A real run, told twice: /metrics, history and summary.json against what a second telemetry endpoint heard.

The recomputation below knows the wire and nothing of the project: it reads the detail spans of every response and
the links by which train steps say what they consumed. Conservation is recounted from the spans, term by term.
"""

import json
import math
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import requests
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.exporter.conftest import StartExporter
from tests.otlp_sink import OtlpSink, SpanSeen
from tests.page import check_page
from tests.wire import WATCHDOG_SECONDS, Scrape, scrape_until

ROOT = Path(__file__).parents[2]
VERSIONS = 4
STEPS_PER_VERSION = 3
SAMPLES_PER_STEP = 8
GROUP_SIZE = 4
SETTINGS = {
    "versions": VERSIONS,
    "steps_per_version": STEPS_PER_VERSION,
    "required_samples": SAMPLES_PER_STEP,
    "group_size": GROUP_SIZE,
    "engine.capacity_responses": 32,
    "rollouters": 2,
    "telemetry.detail_sampling": 1,
}


class Heard(NamedTuple):
    said: dict[str, Any]
    span: Span


class Told(NamedTuple):
    """What each surface said of the run."""

    run: str
    spans: list[SpanSeen]
    page: Scrape
    history: list[dict[str, Any]]
    summary: dict[str, Any]
    pages: list[Scrape]
    """Scrapes taken while it ran."""

    def named(self, name: str) -> list[Heard]:
        return [
            Heard(dict(span.attributes), span.message)
            for span in self.spans
            if span.name == f"asyncrl.{name}"
        ]

    def steps(self, version: int) -> list[Heard]:
        return [step for step in self.named("train_step") if step.said["asyncrl.param_version"] == version]

    def consumed(self, steps: list[Heard]) -> list[dict[str, Any]]:
        """What the rollout spans say that these steps link to."""
        rollouts = {rollout.span.span_id: rollout.said for rollout in self.named("rollout")}
        return [rollouts[link.span_id] for step in steps for link in step.span.links]


@pytest.fixture(scope="module")
def told(start_module_exporter: StartExporter, tmp_path_factory: pytest.TempPathFactory) -> Told:
    exporter = start_module_exporter()
    directory = tmp_path_factory.mktemp("run")
    pages: list[Scrape] = []
    done = threading.Event()

    def scrape() -> None:
        while not done.wait(0.2):
            pages.append(Scrape(exporter.metrics))

    with OtlpSink() as sink:
        settings = SETTINGS | {
            "telemetry.endpoints": json.dumps([exporter.otlp, sink.url]),
            "runs_dir": directory,
        }
        flags = [f"--set={key}={value}" for key, value in settings.items()]
        scraper = threading.Thread(target=scrape)
        scraper.start()
        try:
            command = [sys.executable, "-P", str(ROOT / "asyncrl.py"), "run", *flags]
            done_run = subprocess.run(
                command,
                cwd=directory,
                capture_output=True,
                text=True,
                timeout=4 * WATCHDOG_SECONDS,
                check=False,
            )
        finally:
            done.set()
            scraper.join()
        assert done_run.returncode == 0, done_run.stderr[-4000:]
        spans = list(sink.spans)
    (summary_file,) = directory.glob("*/summary.json")
    run = summary_file.parent.name
    page = scrape_until(
        exporter.metrics,
        lambda page: page.value("asyncrl_versions_sealed_total", run=run, complete="true") == VERSIONS,
    )
    answer = requests.get(f"{exporter.metrics}/api/v1/runs/{run}/versions", timeout=WATCHDOG_SECONDS).json()
    summary = json.loads(summary_file.read_text())
    return Told(run=run, spans=spans, page=page, history=answer["versions"], summary=summary, pages=pages)


def mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def close(value: float | None) -> Any:
    return pytest.approx(value, rel=1e-12, abs=1e-12)


def of_version(told: Told, version: int) -> Iterator[tuple[str, float]]:
    """The values of one version, from the responses that its steps consumed: (family without prefix, value)."""
    responses = told.consumed(told.steps(version))
    rewards = [float(response["asyncrl.reward"]) for response in responses]
    lengths = [float(response["asyncrl.tokens"]) for response in responses]
    staleness = [float(version - 1 - response["asyncrl.param_version.min"]) for response in responses]
    spans = [
        float(response["asyncrl.param_version.max"] - response["asyncrl.param_version.min"])
        for response in responses
    ]
    for name, unit, values in (
        ("reward", "", rewards),
        ("response_length", "_tokens", lengths),
        ("staleness", "_versions", staleness),
        ("response_span", "_versions", spans),
    ):
        yield f"{name}_mean{unit}", mean(values)
        yield f"{name}_min{unit}", min(values)
        yield f"{name}_max{unit}", max(values)
        yield f"{name}_std{unit}", math.sqrt(mean([(value - mean(values)) ** 2 for value in values]))
    yield "train_steps", float(STEPS_PER_VERSION)
    yield "samples", float(STEPS_PER_VERSION * SAMPLES_PER_STEP)
    yield "complete", 1.0


def test_every_step_links_every_response_it_consumed(told: Told) -> None:
    steps = told.named("train_step")
    assert len(steps) == VERSIONS * STEPS_PER_VERSION
    assert {len(step.span.links) for step in steps} == {SAMPLES_PER_STEP * GROUP_SIZE}
    assert len(told.consumed(steps)) == VERSIONS * STEPS_PER_VERSION * SAMPLES_PER_STEP * GROUP_SIZE


@pytest.mark.parametrize("version", range(1, VERSIONS + 1))
def test_the_version_window_agrees_with_the_recomputation(told: Told, version: int) -> None:
    for family, value in of_version(told, version):
        labels: dict[str, str | int] = {"run": told.run, "attempt": 1, "param_version": version}
        assert told.page.value(f"asyncrl_version_{family}", **labels) == close(value), family


@pytest.mark.parametrize("version", range(1, VERSIONS + 1))
def test_the_history_agrees_with_the_recomputation(told: Told, version: int) -> None:
    (said,) = [said for said in told.history if said["param_version"] == version]
    values = dict(of_version(told, version))
    assert (said["param_version"], said["complete"], said["train_steps"]) == (
        version,
        True,
        STEPS_PER_VERSION,
    )
    for name, unit in (("reward", ""), ("response_length", "_tokens"), ("staleness", "_versions")):
        for statistic in ("mean", "min", "max", "std"):
            assert said["metrics"][name][statistic] == close(values[f"{name}_{statistic}{unit}"])
    (sync,) = [span for span in told.named("weight_sync") if span.said["asyncrl.param_version"] == version]
    assert said["timestamp"] == close(sync.span.end_time_unix_nano / 1e9)
    states = nanoseconds(sync.said, "asyncrl.state_seconds.")
    active = states.get("training", 0) + states.get("assembling", 0)
    assert said["trainer"]["idle_ratio"] == close(1 - active / sum(states.values()))


def nanoseconds(said: dict[str, Any], prefix: str) -> dict[str, int]:
    """The durations under a prefix; senders measure in integer nanoseconds and send seconds."""
    return {
        name.removeprefix(prefix): round(value * 1e9)
        for name, value in said.items()
        if name.startswith(prefix)
    }


def test_the_rollouter_windows_agree_with_the_recomputation(told: Told) -> None:
    windows = told.named("rollouter_window")
    assert windows
    for window in windows:
        states = nanoseconds(window.said, "asyncrl.state_seconds.")
        total = sum(states.values())
        active = states.get("generating", 0) + states.get("draining", 0)
        labels: dict[str, str | int] = {
            "run": told.run,
            "attempt": 1,
            "param_version": str(window.said["asyncrl.param_version"]),
            "rollouter": str(window.said["asyncrl.rollouter"]),
        }
        assert told.page.value("asyncrl_version_rollouter_version_seconds", **labels) == close(total / 1e9)
        idle = told.page.value("asyncrl_version_rollouter_idle_ratio", **labels)
        assert idle == close(1 - active / total)
        busy, offered = (
            round(window.said[f"asyncrl.{name}"] * 1e9)
            for name in ("busy_capacity_seconds", "capacity_seconds")
        )
        utilization = told.page.value("asyncrl_version_rollouter_utilization_ratio", **labels)
        assert utilization == close(busy / offered)


def test_the_summary_agrees_with_the_recomputation(told: Told) -> None:
    first, last = (dict(of_version(told, version)) for version in (1, VERSIONS))
    responses = [(step, response) for step in told.named("train_step") for response in told.consumed([step])]
    staleness = [
        float(step.said["asyncrl.param_version"] - 1 - response["asyncrl.param_version.min"])
        for step, response in responses
    ]
    spanning = sum(
        response["asyncrl.param_version.max"] > response["asyncrl.param_version.min"]
        for _, response in responses
    )
    summary = told.summary
    assert summary["reward_mean_first"] == close(first["reward_mean"])
    assert summary["reward_mean_last"] == close(last["reward_mean"])
    assert summary["staleness_mean"] == close(mean(staleness))
    assert summary["staleness_max"] == max(staleness)
    assert summary["responses_spanning_versions"] == spanning
    assert summary["versions_published"] == VERSIONS
    assert summary["train_steps"] == VERSIONS * STEPS_PER_VERSION


def test_the_account_is_conserved_recounted_from_spans(told: Told) -> None:
    generated = {span.said["asyncrl.sample.id"] for span in told.named("rollout")}
    consumed = {response["asyncrl.sample.id"] for response in told.consumed(told.named("train_step"))}
    trained = sum(int(step.said["asyncrl.trained_sample_count"]) for step in told.named("train_step"))
    responses = Counter(span.said["asyncrl.sample.id"] for span in told.named("rollout"))
    assert set(responses.values()) == {GROUP_SIZE}
    account = told.summary["samples"]
    assert account["trained"] == trained
    assert account["filtered_zero_variance"] == len(consumed) - trained
    assert account["unused_at_end"] >= len(generated - consumed)
    assert account["fed"] >= len(generated)
    ended = sum(account[outcome] for outcome in OUTCOMES)
    assert (account["fed"], account["in_flight"], account["queued"]) == (ended, 0, 0)
    for outcome in OUTCOMES:
        on_page = told.page.value("asyncrl_samples_total", run=told.run, outcome=outcome)
        assert on_page == account[outcome], outcome
    assert told.page.value("asyncrl_samples_fed_total", run=told.run) == account["fed"]


OUTCOMES = (
    "trained",
    "filtered_zero_variance",
    "dropped_stale",
    "dropped_queue_full",
    "dropped_rollback",
    "failed",
    "unused_at_end",
)


def test_every_scrape_satisfies_the_invariants(told: Told) -> None:
    assert len(told.pages) > 10
    for page in (*told.pages, told.page):
        check_page(page.text, page.content_type)


def test_counters_never_fall_from_one_scrape_to_the_next(told: Told) -> None:
    for before, after in zip(told.pages, told.pages[1:], strict=False):
        for (name, labels), value in before.samples.items():
            if name.endswith(("_total", "_bucket", "_count")) and name.startswith("asyncrl_"):
                assert after.samples[name, labels] >= value, (name, labels)
