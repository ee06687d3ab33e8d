"""What is shown while a run goes on, with and without a terminal."""

import os
import sys

import pytest

from runtime.account import SampleAccount
from runtime.live_view import LiveView, Statuses
from runtime.reports import RollouterStatus, TrainerStatus, VersionReport
from runtime.telemetry.emitter import TelemetryStats

REPORT = VersionReport(
    version=3,
    train_steps=4,
    samples=128,
    reward_mean=0.5,
    exact_match_ratio=0.25,
    staleness_mean=0.5,
    trainer_idle_ratio=None,
    rollouter_idle_ratio=0.3,
    seconds=2.0,
)
NOTHING_SENT = TelemetryStats(endpoints=[], cpu_seconds=0.0)
STATUSES = Statuses(
    TrainerStatus(state="training", param_version=2, steps=9, telemetry=NOTHING_SENT),
    SampleAccount(budget=192, capacity=192).view(),
    [RollouterStatus(slot="0", state="generating", decoding=8, param_version=2, telemetry=NOTHING_SENT)],
)


def test_without_a_terminal_each_version_is_one_plain_line(capsys: pytest.CaptureFixture[str]) -> None:
    starting = TrainerStatus(state="starting", param_version=-1, steps=0, telemetry=NOTHING_SENT)
    with LiveView(versions=80, metrics_url="http://127.0.0.1:9810/metrics") as view:
        for statuses in (STATUSES._replace(trainer=starting), STATUSES, STATUSES):
            view.refresh(statuses)
        view.version(REPORT)
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "metrics on http://127.0.0.1:9810/metrics",
        "training has begun",
        "version 3/80  reward 0.500  exact 0.250  staleness 0.50  queue 0/192  trainer idle -  rollout idle 0.30  "
        "samples/s 64",
    ]


def test_view_whose_reader_has_gone_is_given_up_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        with LiveView(versions=80, metrics_url="http://127.0.0.1:9810/metrics") as view:
            view.refresh(STATUSES)
            view.version(REPORT)


def test_terminal_shows_versions_states_and_where_the_metrics_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    with LiveView(versions=80, metrics_url="http://127.0.0.1:9810/metrics") as view:
        view.version(REPORT)
        view.refresh(STATUSES)
    shown = capsys.readouterr().out
    for part in (
        "http://127.0.0.1:9810/metrics",
        "3/80",
        "0.500",
        "trainer training",
        "rollouter 0 generating",
    ):
        assert part in shown
    assert "trainer" not in shown[shown.rindex("samples/s") :].replace("trainer idle", ""), (
        "not after the end"
    )
