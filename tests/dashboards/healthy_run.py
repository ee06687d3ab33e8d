"""What a healthy run looks like to Prometheus, minute by minute, and how something in it changes.

One version every two minutes, a checkpoint every twenty, two rollouters, one exporter, two GPUs. A series is named
as in PromQL but without the labels that every target and run has; its values are a function of the minute.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Values = Callable[[int], float | str | None]
"""Minute -> value; None for no sample, "stale" where a scrape says that the series is gone."""
Series = Mapping[str, Values]
Change = Callable[[int, int], Values]
"""(since, until) -> values that are other than usual between the two."""

ROLLOUTERS = ("0", "1")
VERSIONS = ("1", "2", "3")
"""Those on the page, as many as matter."""
STALE = "stale"


def always(value: float) -> Values:
    return lambda minute: value


def per_minute(rate: float, start: float = 0) -> Values:
    """A counter."""
    return lambda minute: start + rate * (minute + 1)


def now(minute: int) -> float:
    return 60 * minute


def every(minutes: int) -> Values:
    """The time of the newest of regular events."""
    return lambda minute: 60 * minutes * (minute // minutes)


def count(minutes: int) -> Values:
    """How many regular events there were."""
    return lambda minute: minute // minutes


def noisy(mean: float, std: float) -> Values:
    """Goes below, to and above its mean."""
    return lambda minute: mean + std * math.sqrt(1.5) * (minute % 3 - 1)


# ---- changes


@dataclass(frozen=True, slots=True)
class Level:
    """Another value meanwhile."""

    usual: Values
    other: Values

    def __call__(self, since: int, until: int) -> Values:
        return lambda minute: self.other(minute) if since <= minute < until else self.usual(minute)


def level(usual: float | Values, other: float | str | Values) -> Level:
    return Level(
        usual if callable(usual) else always(usual),
        other if callable(other) else lambda minute: other,
    )


def rate(usual: float, other: float) -> Change:
    """A counter with another rate meanwhile."""
    return lambda since, until: (
        lambda minute: usual * (minute + 1) + (other - usual) * (min(max(minute + 1, since), until) - since)
    )


def frozen(usual: Values) -> Change:
    """Stands still meanwhile, and is as usual afterwards."""
    return lambda since, until: lambda minute: usual(since) if since <= minute < until else usual(minute)


def event(minute_of_event: int | None = None) -> Change:
    """The time of an event, from then on; nothing before."""
    return lambda since, until: (
        lambda minute: (
            None if minute < since else 60.0 * (since if minute_of_event is None else minute_of_event)
        )
    )


def gone(usual: Values) -> Change:
    """Not on the page meanwhile."""
    return level(usual, STALE)


# ---- the healthy run


def one_hot(
    family: str, label: str, current: str, values: tuple[str, ...], **labels: str
) -> dict[str, Values]:
    return {series(family, **labels, **{label: value}): always(float(value == current)) for value in values}


def series(family: str, **labels: str) -> str:
    return family + "{" + ",".join(f'{name}="{value}"' for name, value in sorted(labels.items())) + "}"


TRAINER_SECONDS = {
    "training": 50.0,
    "waiting_samples": 6.0,
    "weight_sync": 4.0,
    "validating": 0.0,
    "checkpointing": 0.0,
}
ROLLOUTER_SECONDS = {"generating": 54.0, "paused_staleness": 6.0, "validating": 0.0}
OUTCOMES = {
    "trained": 18.0,
    "filtered_zero_variance": 2.0,
    "dropped_stale": 0.0,
    "failed": 0.0,
    "dropped_rollback": 0.0,
}
STATUSES = ("running", "completed", "failed", "stopped", "lost")
STALENESS_BUCKETS = ("0", "1", "2", "3", "4", "6", "8", "12", "16", "32", "+Inf")

OF_RUN: dict[str, Values] = {
    **one_hot("asyncrl_run_status", "status", "running", STATUSES),
    "asyncrl_run_attempt{}": always(1),
    "asyncrl_attempt_start_timestamp_seconds{}": always(0),
    "asyncrl_param_version{}": count(2),
    "asyncrl_last_version_timestamp_seconds{}": every(2),
    "asyncrl_last_train_step_timestamp_seconds{}": now,
    "asyncrl_last_checkpoint_timestamp_seconds{}": every(20),
    "asyncrl_window_stride_versions{}": always(1),
    **{
        series(f"asyncrl_version_{what}", attempt="1", param_version=version): always(value * scale)
        for version in VERSIONS
        for what, value, scale in (
            ("trainer_version_seconds", 120, 1),
            ("published_timestamp_seconds", 120, int(version)),
        )
    },
    "asyncrl_trainer_version_seconds{}": always(120),
    "asyncrl_trainer_wait_ratio{}": always(0.1),
    "asyncrl_rollouters_idle_ratio{}": always(0.1),
    "asyncrl_rollouters_utilization_ratio{}": always(0.8),
    "asyncrl_weight_sync_mean_seconds{}": always(4),
    **one_hot("asyncrl_trainer_state", "state", "training", tuple(TRAINER_SECONDS)),
    **{
        series("asyncrl_trainer_state_seconds_total", state=state): per_minute(seconds)
        for state, seconds in TRAINER_SECONDS.items()
    },
    'asyncrl_exporter_source_last_seen_timestamp_seconds{role="trainer",rollouter=""}': now,
    'asyncrl_exporter_source_clock_offset_seconds{role="trainer",rollouter=""}': always(0.5),
    'asyncrl_telemetry_dropped_total{kind="control"}': always(0),
    'asyncrl_telemetry_dropped_total{kind="detail"}': per_minute(5),
    'asyncrl_late_records_total{reason="sealed"}': always(0),
    'asyncrl_late_records_total{reason="attempt_over"}': always(0),
    'asyncrl_lost_records_total{role="trainer"}': always(0),
    "asyncrl_samples_fed_total{}": per_minute(20, start=10),
    **{series("asyncrl_samples_total", outcome=name): per_minute(rate_) for name, rate_ in OUTCOMES.items()},
    "asyncrl_samples_in_flight{}": always(6),
    "asyncrl_samples_queued{}": always(4),
    "asyncrl_staleness_max_versions{}": always(2),
    "asyncrl_staleness_limit_versions{}": always(4),
    **{
        series("asyncrl_staleness_versions_bucket", le=bound): per_minute(100 if bound != "0" else 50)
        for bound in STALENESS_BUCKETS
    },
    "asyncrl_reward_mean{}": noisy(0.5, 0.1),
    "asyncrl_entropy{}": always(1),
    "asyncrl_kl_behaviour{}": always(0.01),
    "asyncrl_kl_reference{}": always(0.015),
    "asyncrl_grad_norm{}": always(0.5),
    "asyncrl_effective_sample_size_ratio{}": always(0.9),
    "asyncrl_importance_ratio_mean{}": always(1),
}
for slot in ROLLOUTERS:
    OF_RUN |= {
        **one_hot("asyncrl_rollouter_state", "state", "generating", tuple(ROLLOUTER_SECONDS), rollouter=slot),
        **{
            series("asyncrl_rollouter_state_seconds_total", rollouter=slot, state=state): per_minute(seconds)
            for state, seconds in ROLLOUTER_SECONDS.items()
        },
        series("asyncrl_rollouter_param_version", rollouter=slot): count(2),
        series("asyncrl_exporter_source_last_seen_timestamp_seconds", role="rollouter", rollouter=slot): now,
        series("asyncrl_exporter_source_clock_offset_seconds", role="rollouter", rollouter=slot): always(0.5),
    }

OF_EXPORTER: dict[str, Values] = {
    "up{}": always(1),
    'asyncrl_exporter_build_info{version="1"}': always(1),
    'asyncrl_exporter_requests_total{signal="traces",status="200"}': per_minute(60),
    'asyncrl_exporter_requests_total{signal="traces",status="503"}': always(0),
    'asyncrl_exporter_web_config_reload_failed{listener="scrape"}': always(0),
    'asyncrl_exporter_certificate_expiry_timestamp_seconds{listener="otlp"}': always(1e7),
    'asyncrl_exporter_refused_requests_total{listener="otlp",status="401"}': always(0),
    "asyncrl_exporter_push_queue_oldest_age_seconds{}": always(0),
}

OF_HOST: dict[str, Values] = {}
for gpu in ("0", "1"):
    OF_HOST |= {
        series("DCGM_FI_DEV_GPU_TEMP", gpu=gpu): always(60),
        series("DCGM_FI_DEV_XID_ERRORS", gpu=gpu): always(0),
        series("DCGM_FI_DEV_THERMAL_VIOLATION", gpu=gpu): always(0),
        series("DCGM_FI_DEV_FB_USED", gpu=gpu): always(40_000),
        series("DCGM_FI_DEV_FB_FREE", gpu=gpu): always(40_000),
    }
