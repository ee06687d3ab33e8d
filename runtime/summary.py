"""`summary.json`: what a run did, from the reports of its actors. Pure. Ratios over windows are ratios of sums."""

import math
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

from runtime.config import RunConfig
from runtime.reports import QueueReport, RollouterReport, StateTimes, TrainerReport, TrainerStatus
from runtime.telemetry.emitter import TelemetryStats
from runtime.telemetry.partial import Partial

Interval = tuple[int, int]


class Reports(NamedTuple):
    """What the actors said in the end; None for one that died."""

    trainer: TrainerReport | None
    rollouters: Sequence[RollouterReport]
    queue: QueueReport | None
    last_seen: TrainerStatus | None
    """How the trainer was when it last answered; for a trainer without a report, what is known of it."""

    @property
    def telemetry(self) -> list[TelemetryStats]:
        """Of each who said it."""
        everybody = (self.trainer, self.queue, *self.rollouters)
        return [report.telemetry for report in everybody if report is not None]


def build_summary(config: RunConfig, *, status: str, wall_seconds: float, reports: Reports) -> dict[str, Any]:
    """The document, ready for strict JSON: what is not known, or not finite, is null."""
    trainer, rollouters, last_seen = reports.trainer, reports.rollouters, reports.last_seen
    first, last = (trainer.first, trainer.last) if trainer else (None, None)
    document = {
        "run_id": config.run_id,
        "attempt": 1,
        "status": status,
        "versions_published": trainer.versions_published
        if trainer
        else last_seen and max(last_seen.param_version, 0),
        "train_steps": trainer.train_steps if trainer else last_seen and last_seen.steps,
        "wall_seconds": wall_seconds,
        "samples": reports.queue and reports.queue.account._asdict(),
        "reward_mean_first": first and first.reward_mean,
        "reward_mean_last": last and last.reward_mean,
        "exact_match_first": first and first.exact_match_ratio,
        "exact_match_last": last and last.exact_match_ratio,
        "exact_match_greedy": trainer and trainer.exact_match_greedy,
        "staleness_mean": trainer and _mean(trainer.staleness),
        "staleness_max": trainer.staleness.max if trainer and trainer.staleness.count else None,
        "update_lag_mean": trainer and _mean(trainer.update_lag),
        "responses_spanning_versions": trainer and trainer.responses_spanning_versions,
        "overlap_ratio": trainer
        and overlap_ratio(
            trainer.active_intervals, chain.from_iterable(report.active_intervals for report in rollouters)
        ),
        "rollouter_idle_ratio_mean": _sum(report.times for report in rollouters).idle_ratio,
        "trainer_idle_ratio_mean": trainer and trainer.times.idle_ratio,
        "device": trainer and trainer.device,
        "telemetry": _telemetry(reports),
    }
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in document.items()
    }


def overlap_ratio(training: Iterable[Interval], generating: Iterable[Interval]) -> float | None:
    """Time in which both sides compute / the smaller of training and generating time; None if one never did.

    [0, 10) against [5, 25) and [20, 30): both for 5 of 10, so 0.5.
    """
    left, right = _union(training), _union(generating)
    smaller = min(_length(left), _length(right))
    return _length(_intersection(left, right)) / smaller if smaller else None


def _union(intervals: Iterable[Interval]) -> list[Interval]:
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _intersection(left: Sequence[Interval], right: Sequence[Interval]) -> list[Interval]:
    """Of two unions, in one pass."""
    both: list[Interval] = []
    i = j = 0
    while i < len(left) and j < len(right):
        start, end = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if start < end:
            both.append((start, end))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return both


def _length(intervals: Iterable[Interval]) -> int:
    return sum(end - start for start, end in intervals)


def _sum(times: Iterable[StateTimes]) -> StateTimes:
    total = StateTimes()
    for part in times:
        total = total.plus(part)
    return total


def _mean(partial: Partial) -> float | None:
    return partial.sum / partial.count if partial.count else None


def _telemetry(reports: Reports) -> dict[str, Any]:
    stats = reports.telemetry
    kinds = sorted({kind for part in stats for kind in part.dropped})
    return {
        "sent": sum(part.sent for part in stats),
        "rejected": sum(part.rejected for part in stats),
        "dropped": {kind: sum(part.dropped.get(kind, 0) for part in stats) for kind in kinds},
        "cpu_seconds": sum(part.cpu_seconds for part in stats),
    }
