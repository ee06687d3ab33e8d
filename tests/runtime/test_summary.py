"""The summary: overlap of two sides that compute, ratios of sums, and null for what nobody could say."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.config_sources import load_config
from runtime.reports import RollouterReport, StateTimes, TrainerReport, TrainerStatus, VersionReport
from runtime.summary import Interval, Reports, build_summary, overlap_ratio
from runtime.telemetry.delivery import DeliveryStats
from runtime.telemetry.emitter import TelemetryStats
from runtime.telemetry.partial import Partial

DELIVERED = DeliveryStats(
    endpoint="http://127.0.0.1:4318",
    sent=2,
    rejected=0,
    buffered=0,
    dropped={"control": 1, "detail": 0},
    failures=0,
    last_failure="",
    cpu_seconds=0.1,
)
SILENT = TelemetryStats(endpoints=[DELIVERED], cpu_seconds=0.5)


def test_overlap_is_over_the_union_of_the_rollouters() -> None:
    assert overlap_ratio([(0, 10)], [(5, 25), (20, 30)]) == 0.5
    assert overlap_ratio([(0, 10), (20, 30)], [(0, 40), (2, 8)]) == 1.0
    assert overlap_ratio([(0, 1)], [(1, 2)]) == 0.0
    assert overlap_ratio([], [(0, 1)]) is None


intervals = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 20)).map(lambda pair: (pair[0], pair[0] + pair[1])),
    max_size=6,
)


@given(intervals, intervals)
def test_overlap_agrees_with_counting_moments(left: list[Interval], right: list[Interval]) -> None:
    training = {moment for start, end in left for moment in range(start, end)}
    generating = {moment for start, end in right for moment in range(start, end)}
    smaller = min(len(training), len(generating))
    assert overlap_ratio(left, right) == (len(training & generating) / smaller if smaller else None)


def test_idle_ratio_is_a_ratio_of_sums_and_a_dead_trainer_leaves_nulls() -> None:
    rollouters = [
        RollouterReport(slot=str(slot), times=times, active_intervals=[], telemetry=SILENT)
        for slot, times in enumerate([StateTimes(90, 100), StateTimes(0, 900)])
    ]
    seen = TrainerStatus(state="training", param_version=7, steps=29, telemetry=SILENT)
    reports = Reports(trainer=None, rollouters=rollouters, queue=None, last_seen=seen)
    summary = build_summary(load_config(), status="failed", wall_seconds=1.0, reports=reports)
    assert summary["rollouter_idle_ratio_mean"] == 0.91
    assert summary["samples"] is None
    assert (summary["versions_published"], summary["train_steps"]) == (7, 29), "as it was seen last"
    assert summary["exact_match_greedy"] is None
    assert summary["telemetry"] == {
        "sent": 4,
        "rejected": 0,
        "dropped": {"control": 2, "detail": 0},
        "cpu_seconds": 1.0,
    }
    json.dumps(summary, allow_nan=False)


@pytest.mark.parametrize("reward", [math.nan, math.inf])
def test_number_that_json_does_not_know_is_null_and_the_summary_is_written_all_the_same(
    reward: float,
) -> None:
    last = VersionReport(
        version=1,
        train_steps=1,
        samples=1,
        reward_mean=reward,
        exact_match_ratio=1.0,
        staleness_mean=0.0,
        trainer_idle_ratio=None,
        rollouter_idle_ratio=None,
        seconds=1.0,
    )
    trainer = TrainerReport(
        versions_published=1,
        train_steps=1,
        first=last,
        last=last,
        staleness=Partial(),
        update_lag=Partial(),
        responses_spanning_versions=0,
        exact_match_greedy=None,
        times=StateTimes(),
        active_intervals=[],
        device=None,
        telemetry=SILENT,
    )
    reports = Reports(trainer=trainer, rollouters=[], queue=None, last_seen=None)
    summary = build_summary(load_config(), status="completed", wall_seconds=1.0, reports=reports)
    assert summary["reward_mean_last"] is None
    json.dumps(summary, allow_nan=False)
