"""The names of the wire: spans, attributes, instruments, states. docs/wire.md says what each means.

The one vocabulary that the runtime and the exporter share. Standard library only, nothing happens at import.
"""

from typing import Final

SCHEMA_VERSION: Final = "1"

# Resource attributes.
SOURCE_ID: Final = "asyncrl.source.id"
SERVICE_INSTANCE_ID: Final = "service.instance.id"
SERVICE_NAME: Final = "service.name"
ROLE: Final = "asyncrl.role"
RUN_ID: Final = "rl.run.id"
ATTEMPT: Final = "asyncrl.run.attempt"
SCHEMA: Final = "asyncrl.schema_version"
ALGORITHM: Final = "rl.algorithm"
MODEL: Final = "rl.model.name"
STEPS_PER_VERSION: Final = "asyncrl.steps_per_version"
STALENESS_LIMIT: Final = "asyncrl.staleness_limit"

TRAINER: Final = "trainer"
ROLLOUTER_ROLE: Final = "rollouter"
QUEUE: Final = "queue"
CONTROLLER: Final = "controller"
ROLES: Final = (TRAINER, ROLLOUTER_ROLE, QUEUE, CONTROLLER)

# Control spans.
TRAIN_STEP: Final = "asyncrl.train_step"
WEIGHT_SYNC: Final = "asyncrl.weight_sync"
ROLLOUTER_WINDOW: Final = "asyncrl.rollouter_window"
VALIDATION: Final = "asyncrl.validation"
CHECKPOINT: Final = "asyncrl.checkpoint"
GENERATED_COHORT: Final = "asyncrl.generated_cohort"
RUN_END: Final = "asyncrl.run_end"
ANNEX_SPANS: Final = (VALIDATION, CHECKPOINT, GENERATED_COHORT)
CONTROL_SPANS: Final = (TRAIN_STEP, WEIGHT_SYNC, ROLLOUTER_WINDOW, *ANNEX_SPANS, RUN_END)

# Detail spans: sampled, and dropped first.
ROLLOUT: Final = "asyncrl.rollout"
GENERATE: Final = "asyncrl.generate"
REWARD: Final = "asyncrl.reward"
QUEUE_WAIT: Final = "asyncrl.queue_wait"
DETAIL_SPANS: Final = (ROLLOUT, GENERATE, REWARD, QUEUE_WAIT)

PROBE: Final = "asyncrl.probe"
"""Of no run: whoever sends it wants to know whether it is journalled."""

# Attributes of control spans.
SEQ: Final = "asyncrl.seq"
PARAM_VERSION: Final = "asyncrl.param_version"
PARAM_VERSION_FROM: Final = "asyncrl.param_version.from"
STEP: Final = "asyncrl.step"
STEP_IN_WINDOW: Final = "asyncrl.step_in_window"
SAMPLE_COUNT: Final = "asyncrl.sample_count"
TRAINED_SAMPLE_COUNT: Final = "asyncrl.trained_sample_count"
TOKEN_COUNT: Final = "asyncrl.token_count"
STEPS_IN_WINDOW: Final = "asyncrl.steps_in_window"
ROLLOUTERS: Final = "asyncrl.rollouters"
SYNC_BYTES: Final = "asyncrl.sync.bytes"
CHECKPOINT_BYTES: Final = "asyncrl.checkpoint.bytes"
ROLLOUTER: Final = "asyncrl.rollouter"
VERSION_TIME_SECONDS: Final = "asyncrl.version_time_seconds"
CAPACITY_SECONDS: Final = "asyncrl.capacity_seconds"
BUSY_CAPACITY_SECONDS: Final = "asyncrl.busy_capacity_seconds"
STATUS: Final = "asyncrl.status"
LINKS_DROPPED: Final = "asyncrl.links.dropped"

# Attribute families: a prefix, then a name.
STATE_SECONDS_PREFIX: Final = "asyncrl.state_seconds."
PHASE_SECONDS_PREFIX: Final = "asyncrl.phase_seconds."
METRIC_PREFIX: Final = "asyncrl.metric."
BUCKETS_PREFIX: Final = "asyncrl.buckets."
NONFINITE_PREFIX: Final = "asyncrl.nonfinite."
STATISTIC_PREFIX: Final = "asyncrl.statistic."
REPORTED_PREFIX: Final = "asyncrl.reported."

# Attributes of detail spans.
SAMPLE_ID: Final = "asyncrl.sample.id"
RESPONSE_INDEX: Final = "asyncrl.response.index"
PARAM_VERSION_MIN: Final = "asyncrl.param_version.min"
PARAM_VERSION_MAX: Final = "asyncrl.param_version.max"
TOKENS: Final = "asyncrl.tokens"
REWARD_VALUE: Final = "asyncrl.reward"
FINISH_REASON: Final = "asyncrl.finish_reason"

# Statuses of a run. A trainer or controller says the first three; the exporter adds the others.
COMPLETED: Final = "completed"
FAILED: Final = "failed"
STOPPED: Final = "stopped"
END_STATUSES: Final = (COMPLETED, FAILED, STOPPED)

# States of the two clocks, in the order in which the first that applies is chosen (architecture, section 4).
STATE: Final = "asyncrl.state"
ROLLOUTER_STATES: Final = (
    "stopped",
    "starting",
    "weight_sync",
    "generating",
    "draining",
    "validating",
    "paused_staleness",
    "paused_queue_full",
    "waiting_prompts",
    "unaccounted",
)
ROLLOUTER_ACTIVE_STATES: Final = ("generating", "draining")
TRAINER_STATES: Final = (
    "stopped",
    "starting",
    "waiting_samples",
    "assembling",
    "training",
    "weight_sync",
    "validating",
    "checkpointing",
    "unaccounted",
)
TRAINER_ACTIVE_STATES: Final = ("assembling", "training")
SYNC_PHASES: Final = ("wait", "transfer", "load")

# Instruments: live gauges, newest by time.
GAUGE_ROLLOUTER_STATE: Final = "asyncrl.rollouter.state"
GAUGE_TRAINER_STATE: Final = "asyncrl.trainer.state"
GAUGE_ROLLOUTER_DECODING: Final = "asyncrl.rollouter.decoding"
GAUGE_ROLLOUTER_CAPACITY: Final = "asyncrl.rollouter.capacity"
GAUGE_ROLLOUTER_PARAM_VERSION: Final = "asyncrl.rollouter.param_version"
GAUGE_QUEUE_CAPACITY: Final = "asyncrl.queue.capacity"
GAUGE_QUEUE_OLDEST_AGE: Final = "asyncrl.queue.oldest_age_seconds"
GAUGE_BUDGET_USED: Final = "asyncrl.staleness_budget.used"
GAUGE_BUDGET_LIMIT: Final = "asyncrl.staleness_budget.limit"
GAUGE_IN_FLIGHT: Final = "asyncrl.samples.in_flight"
GAUGE_QUEUED: Final = "asyncrl.samples.queued"

# Instruments: cumulative sums, from 0 per process life.
SUM_FED: Final = "asyncrl.samples.fed"
SUM_GENERATED: Final = "asyncrl.samples.generated"
SUM_SAMPLES: Final = "asyncrl.samples"
SUM_REISSUED: Final = "asyncrl.samples.reissued"
SUM_DUPLICATE_RESULTS: Final = "asyncrl.samples.duplicate_results"
SUM_ROLLOUTER_STATE_SECONDS: Final = "asyncrl.rollouter.state_seconds"
SUM_TRAINER_STATE_SECONDS: Final = "asyncrl.trainer.state_seconds"
SUM_TOKENS_GENERATED: Final = "asyncrl.tokens.generated"
SUM_TELEMETRY_DROPPED: Final = "asyncrl.telemetry.dropped"
OUTCOME: Final = "asyncrl.outcome"
OUTCOMES: Final = (
    "trained",
    "filtered_zero_variance",
    "dropped_stale",
    "dropped_queue_full",
    "dropped_rollback",
    "failed",
    "unused_at_end",
)
DROPPED_KIND: Final = "asyncrl.kind"

# Upper bounds of the cumulative histograms, `+Inf` left out. The sender counts into them
# (`asyncrl.buckets.<name>`), the exporter publishes them: both read this table.
BUCKETS: Final[dict[str, tuple[float, ...]]] = {
    "reward": (-1.0, -0.5, -0.25, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 2.0, 5.0, 10.0),
    "staleness": (0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0),
    "update_lag": (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0),
    "response_span": (0.0, 1.0, 2.0, 3.0, 4.0, 8.0),
    "response_length": (
        1.0,
        2.0,
        4.0,
        8.0,
        16.0,
        32.0,
        64.0,
        128.0,
        256.0,
        512.0,
        1024.0,
        2048.0,
        4096.0,
        8192.0,
        16384.0,
        32768.0,
    ),
    "step": (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0),
    "weight_sync": (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0),
    "queue_wait": (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0),
    "generation": (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0),
    "importance_ratio": (0.1, 0.25, 0.5, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.28, 1.5, 2.0, 4.0, 10.0),
    "advantage": (-4.0, -2.0, -1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0, 2.0, 4.0),
}
