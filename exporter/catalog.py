"""Every metric, declared once, as data. Page, history, boards, rules and docs/metrics.md all read this table.

METRICS     what a trainer may send as `asyncrl.metric.<name>`, and how its values of one version are merged
FAMILIES    everything on /metrics: the families derived from METRICS, and those of the ledger itself

Nothing is inferred from a name: the statistic, its weight and the unit stand here. Long because it is a
table: one row per metric.
"""

from typing import Final, Literal

import msgspec

from runtime.telemetry import schema

# fmt: off

PREFIX: Final = "asyncrl_"
USER_PREFIX: Final = f"{PREFIX}user_"
REPORTED_PREFIX: Final = f"{PREFIX}reported_"

Statistic = Literal["mean", "sum", "min", "max", "last", "distribution"]
Weight = Literal["samples", "trained_samples", "tokens", "steps"]
Cohort = Literal["trainer", "rollouter", "annex"]
Kind = Literal["gauge", "counter", "histogram"]


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """One name of the wire. `low`..`high` is the range a right value lies in; others are refused and counted."""

    name: str
    statistic: Statistic
    weight: Weight = "samples"
    unit: str = ""
    help: str
    low: float | None = None
    high: float | None = None
    signed: bool = False
    """Can be negative: its histogram then has no `_sum` and `_count`, which would not be counters."""
    cohort: tuple[Cohort, ...] = ("trainer",)
    windowed: bool = True
    """Whether the version window (`asyncrl_version_...`) carries it."""
    board: str = ""

    @property
    def buckets(self) -> tuple[float, ...] | None:
        return schema.BUCKETS.get(self.name) if self.statistic == "distribution" else None

    def family(self, statistic: str = "") -> str:
        """The family's name: the statistic of a distribution stands before the unit."""
        return PREFIX + "_".join(part for part in (self.name, statistic, self.unit) if part)


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """One family of /metrics."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ("run",)
    low: float | None = None
    high: float | None = None
    signed: bool = False
    board: str = ""


def _ratio(name: str, help_text: str, weight: Weight = "trained_samples", **more: object) -> Metric:
    return msgspec.convert({"name": name, "statistic": "mean", "weight": weight, "help": help_text, "low": 0.0, "high": 1.0, **more}, Metric)


METRICS: Final[tuple[Metric, ...]] = (
    # Over all consumed samples, before filtering.
    Metric(
        name="reward",
        statistic="distribution",
        signed=True,
        board="overview",
        cohort=("trainer", "annex"),
        help="Reward of the responses consumed by the train steps of a version",
    ),
    _ratio("exact_match_ratio", "Share of consumed responses that are exactly right", weight="samples", cohort=("trainer", "annex"), board="overview"),
    Metric(
        name="response_length", statistic="distribution", unit="tokens", low=0, cohort=("trainer", "annex"), board="overview", help="Length of the consumed responses"
    ),
    Metric(
        name="staleness",
        statistic="distribution",
        unit="versions",
        low=0,
        board="staleness",
        help="Published version at training minus the version that decoded a response's oldest token",
    ),
    Metric(
        name="update_lag",
        statistic="distribution",
        unit="updates",
        low=0,
        board="staleness",
        help="Optimizer updates between the weights of a response's oldest token and the step that trained on it",
    ),
    Metric(name="response_span", statistic="distribution", unit="versions", low=0, board="staleness", help="Newest minus oldest version among the tokens of one response"),
    Metric(
        name="queue_wait",
        statistic="distribution",
        unit="seconds",
        low=0,
        board="staleness",
        help="Time a finished sample waited in the queue for the step that consumed it",
    ),
    # Over what entered the loss.
    Metric(name="advantage", statistic="distribution", signed=True, board="overview", windowed=False, help="Group-relative advantage of the trained responses"),
    Metric(
        name="importance_ratio",
        statistic="distribution",
        low=0,
        board="staleness",
        help="Per-token probability ratio of the current policy to the one that generated the token",
    ),
    Metric(name="policy_loss", statistic="mean", weight="tokens", board="overview", help="Clipped policy-gradient loss, token mean"),
    Metric(name="entropy", statistic="mean", weight="tokens", low=0, board="overview", help="Entropy of the policy per token, in nats"),
    Metric(
        name="kl_behaviour",
        statistic="mean",
        weight="tokens",
        board="staleness",
        help="KL divergence of the current policy from the generating one per token (k3 estimate), in nats",
    ),
    Metric(
        name="kl_reference", statistic="mean", weight="tokens", board="overview", help="KL divergence of the current policy from the reference policy per token, in nats"
    ),
    _ratio("clip_ratio", "Share of tokens whose probability ratio was clipped", weight="tokens", board="staleness"),
    _ratio("effective_sample_size_ratio", "Effective sample size of the importance weights over their number", weight="tokens", board="staleness"),
    Metric(name="grad_norm", statistic="mean", weight="steps", low=0, board="trainer", help="Gradient norm before clipping"),
    Metric(name="learning_rate", statistic="last", weight="steps", low=0, board="trainer", help="Learning rate of the last update of a version"),
    # Speed and memory of the trainer.
    Metric(name="step", statistic="distribution", unit="seconds", low=0, board="trainer", help="Duration of a train step: assembling and training"),
    Metric(
        name="weight_sync",
        statistic="distribution",
        unit="seconds",
        low=0,
        board="trainer",
        help="Duration of a weight sync, from its start until the last rollouter has loaded the version",
    ),
    Metric(name="tokens_per_second", statistic="mean", weight="steps", low=0, board="trainer", help="Tokens trained per second of train step"),
    _ratio("mfu_ratio", "Model FLOPs utilization of the trainer", weight="steps", board="trainer"),
    Metric(name="gpu_memory_allocated_bytes", statistic="max", weight="steps", low=0, board="trainer", help="Peak GPU memory allocated by the trainer"),
    # Of the rollouter windows.
    Metric(
        name="generation",
        statistic="distribution",
        unit="seconds",
        low=0,
        board="rollouters",
        cohort=("rollouter",),
        help="Time from a ticket to its finished group of responses",
    ),
    Metric(
        name="generated_tokens_per_second",
        statistic="sum",
        low=0,
        board="rollouters",
        cohort=("rollouter",),
        help="Tokens decoded per second of a version, summed over rollouters",
    ),
)

METRIC_BY_NAME: Final[dict[str, Metric]] = {metric.name: metric for metric in METRICS}
DISTRIBUTION_STATISTICS: Final = ("mean", "min", "max", "std")


def _gauge(name: str, help_text: str, *labels: str, low: float | None = None, high: float | None = None, board: str = "overview") -> Family:
    return Family(name=PREFIX + name, kind="gauge", help=help_text, labels=("run", *labels), low=low, high=high, board=board)


def _counter(name: str, help_text: str, *labels: str, board: str = "overview") -> Family:
    return Family(name=PREFIX + name, kind="counter", help=help_text, labels=("run", *labels), low=0, board=board)


RUN_STATUSES: Final = ("running", *schema.END_STATUSES, "lost")
ROLLOUTER_STATES: Final = schema.ROLLOUTER_STATES
TRAINER_STATES: Final = schema.TRAINER_STATES
OUTCOMES: Final = schema.OUTCOMES
SYNC_PHASES: Final = schema.SYNC_PHASES
INCOMPLETE_REASONS: Final = ("run_end", "missing_steps", "surplus_steps", "missing_sync", "missing_rollouter", "lost_records", "new_attempt")
REJECT_REASONS: Final = (
    "malformed",
    "missing_attribute",
    "unknown_state",
    "state_sum",
    "bad_value",
    "duplicate_step",
    "version_backward",
    "delta",
    "unknown_schema",
    "truncated",
    "limit",
    "bad_name",
    "collision",
    "clock",
)
LATE_REASONS: Final = ("sealed", "attempt_over")
TOKEN_KINDS: Final = ("generated", "trained")

PARAM_VERSION: Final = _gauge("param_version", "Newest published parameter version", low=0)
RUN_ATTEMPT: Final = _gauge("run_attempt", "Current attempt of the run: 1, and one more for each resume", low=1)
STEPS_PER_VERSION: Final = _gauge("steps_per_version", "Train steps between two publications, if fixed", low=1)
WINDOW_STRIDE: Final = _gauge(
    "window_stride_versions", "1 if the version window has every version; n if the series budget leaves room for every n-th only", low=1, board="exporter"
)
STALENESS_LIMIT: Final = _gauge("staleness_limit_versions", "Hard bound on staleness, if there is one", low=0)
RUN_INFO: Final = _gauge("run_info", "Always 1; the run's algorithm and model as labels", "algorithm", "model")
RUN_STATUS: Final = _gauge("run_status", "1 for the run's status, 0 for the others", "status", low=0, high=1)

ATTEMPT_START: Final = _gauge("attempt_start_timestamp_seconds", "When the current attempt was first heard of")
LAST_VERSION: Final = _gauge("last_version_timestamp_seconds", "When the newest publication was received")
LAST_TRAIN_STEP: Final = _gauge("last_train_step_timestamp_seconds", "When the newest train step was received")
LAST_VALIDATION: Final = _gauge("last_validation_timestamp_seconds", "When the newest validation was received")
LAST_CHECKPOINT: Final = _gauge("last_checkpoint_timestamp_seconds", "When the newest checkpoint was received")
LAST_NONFINITE: Final = _gauge("last_nonfinite_timestamp_seconds", "When a NaN or infinity was last received")
LAST_REJECTED: Final = _gauge("last_rejected_timestamp_seconds", "When a record or value was last refused")
LAST_BACKWARD: Final = _gauge("last_version_backward_timestamp_seconds", "When a sync of a version that was out already was last refused")
LAST_OUT_OF_RANGE: Final = _gauge("last_out_of_range_timestamp_seconds", "When a value outside its range was last refused")
LAST_LOST: Final = _gauge("last_lost_records_timestamp_seconds", "When sequence numbers were last given up as lost")
LAST_INCOMPLETE: Final = _gauge("last_incomplete_timestamp_seconds", "When a version was last sealed incomplete for another reason than the end of its run or attempt")
LAST_EVICTED: Final = _gauge("last_evicted_timestamp_seconds", "When a version last left the page before its time")

VERSIONS_SEALED: Final = _counter("versions_sealed_total", "Versions sealed, complete or not", "complete", board="versions")
VERSIONS_INCOMPLETE: Final = _counter("versions_incomplete_total", "Versions sealed incomplete, per reason", "reason", board="exporter")
VERSIONS_EVICTED: Final = _counter("versions_evicted_early_total", "Versions that left the version window before a scraper was sure to see them", board="exporter")
LATE_RECORDS: Final = _counter("late_records_total", "Records of a sealed version or an ended attempt", "reason", board="exporter")
LOST_RECORDS: Final = _counter("lost_records_total", "Sequence numbers given up as lost", "role", board="exporter")
REJECTED_RECORDS: Final = _counter("rejected_records_total", "Records or values refused", "reason", board="exporter")
NONFINITE_VALUES: Final = _counter("nonfinite_values_total", "NaN and infinities received, left out", "metric", board="exporter")
OUT_OF_RANGE: Final = _counter("out_of_range_values_total", "Values outside the metric's range, refused", "metric", board="exporter")
ATTEMPTS_INFERRED: Final = _counter("attempts_inferred_total", "Attempts that the exporter had to infer", board="exporter")
UNKNOWN_SPANS: Final = _counter("unknown_spans_total", "Spans whose name the exporter does not know", board="exporter")

TRAIN_STEPS: Final = _counter("train_steps_total", "Train steps received", board="trainer")
TOKENS: Final = _counter("tokens_total", "Tokens decoded by rollouters and tokens that entered the loss", "kind")
SAMPLES_FED: Final = _counter("samples_fed_total", "Tickets handed to rollouters", board="staleness")
SAMPLES_GENERATED: Final = _counter("samples_generated_total", "Samples whose responses all finished", board="staleness")
SAMPLES: Final = _counter("samples_total", "Samples that ended, per outcome", "outcome", board="staleness")
SAMPLES_REISSUED: Final = _counter("samples_reissued_total", "Tickets issued again", board="staleness")
DUPLICATE_RESULTS: Final = _counter("duplicate_results_total", "Results of a ticket that had one", board="staleness")
SYNC_PHASE_SECONDS: Final = _counter("weight_sync_phase_seconds_total", "Time in each phase of weight syncs", "phase", board="trainer")
ROLLOUTER_STATE_SECONDS: Final = _counter("rollouter_state_seconds_total", "Time of a rollouter in each state", "rollouter", "state", board="rollouters")
TRAINER_STATE_SECONDS: Final = _counter("trainer_state_seconds_total", "Time of the trainer in each state", "state", board="trainer")
TELEMETRY_DROPPED: Final = _counter("telemetry_dropped_total", "Records that a source dropped before sending", "kind", board="exporter")

SAMPLES_IN_FLIGHT: Final = _gauge("samples_in_flight", "Tickets out at rollouters", low=0, board="staleness")
SAMPLES_QUEUED: Final = _gauge("samples_queued", "Samples in the queue or in the running step", low=0, board="staleness")
QUEUE_CAPACITY: Final = _gauge("queue_capacity", "Samples the queue may hold, in flight included", low=0, board="staleness")
QUEUE_OLDEST_AGE: Final = _gauge("queue_oldest_age_seconds", "Age of the oldest queued sample", low=0, board="staleness")
BUDGET_USED: Final = _gauge("staleness_budget_used", "Tickets used since the last sync", low=0, board="staleness")
BUDGET_LIMIT: Final = _gauge("staleness_budget_limit", "Tickets allowed between two syncs", low=0, board="staleness")
ROLLOUTER_STATE: Final = _gauge("rollouter_state", "1 for a rollouter's state, 0 for the others", "rollouter", "state", low=0, high=1, board="rollouters")
TRAINER_STATE: Final = _gauge("trainer_state", "1 for the trainer's state, 0 for the others", "state", low=0, high=1, board="trainer")
ROLLOUTER_DECODING: Final = _gauge("rollouter_decoding", "Responses a rollouter is decoding", "rollouter", low=0, board="rollouters")
ROLLOUTER_CAPACITY: Final = _gauge("rollouter_capacity", "Responses a rollouter can decode at once", "rollouter", low=0, board="rollouters")
ROLLOUTER_PARAM_VERSION: Final = _gauge("rollouter_param_version", "Version a rollouter serves", "rollouter", low=0, board="rollouters")

ROLLOUTER_IDLE: Final = _gauge("rollouter_idle_ratio", "Share of the version in which a rollouter decoded nothing", "rollouter", low=0, high=1, board="rollouters")
ROLLOUTER_UTILIZATION: Final = _gauge("rollouter_utilization_ratio", "Share of a rollouter's decoding capacity in use", "rollouter", low=0, high=1, board="rollouters")
ROLLOUTER_ACTIVE: Final = _gauge("rollouter_active_seconds", "Time of the version in which a rollouter decoded", "rollouter", low=0, board="rollouters")
ROLLOUTER_VERSION: Final = _gauge("rollouter_version_seconds", "Length of the version at a rollouter", "rollouter", low=0, board="rollouters")
ROLLOUTERS_IDLE: Final = _gauge("rollouters_idle_ratio", "Idle ratio over all rollouters, a ratio of sums", low=0, high=1)
ROLLOUTERS_UTILIZATION: Final = _gauge("rollouters_utilization_ratio", "Utilization over all rollouters, a ratio of sums", low=0, high=1)
TRAINER_IDLE: Final = _gauge("trainer_idle_ratio", "Share of the version in which the trainer did not train", low=0, high=1)
TRAINER_WAIT: Final = _gauge("trainer_wait_ratio", "Share of the version in which the trainer waited for samples", low=0, high=1, board="trainer")
TRAINER_ACTIVE: Final = _gauge("trainer_active_seconds", "Time of the version spent assembling and training", low=0, board="trainer")
TRAINER_VERSION: Final = _gauge("trainer_version_seconds", "Length of the version at the trainer", low=0, board="trainer")

ROLLOUTERS_IDLE_MIN: Final = _gauge("rollouters_idle_min_ratio", "Smallest idle ratio of a rollouter", low=0, high=1, board="rollouters")
ROLLOUTERS_IDLE_MAX: Final = _gauge("rollouters_idle_max_ratio", "Largest idle ratio of a rollouter", low=0, high=1, board="rollouters")
ROLLOUTERS_UTILIZATION_MIN: Final = _gauge("rollouters_utilization_min_ratio", "Smallest utilization of a rollouter", low=0, high=1, board="rollouters")
ROLLOUTERS_UTILIZATION_MAX: Final = _gauge("rollouters_utilization_max_ratio", "Largest utilization of a rollouter", low=0, high=1, board="rollouters")

SOURCE_LAST_SEEN: Final = _gauge("exporter_source_last_seen_timestamp_seconds", "When a source was last heard", "role", "rollouter", board="exporter")
SOURCE_CLOCK_OFFSET: Final = _gauge(
    "exporter_source_clock_offset_seconds",
    "The exporter's wall clock minus the time of a source's newest record, transport included",
    "role",
    "rollouter",
    board="exporter",
)


def _own(name: str, kind: Kind, help_text: str, *labels: str) -> Family:
    """A family of the exporter itself."""
    return Family(name=f"{PREFIX}exporter_{name}", kind=kind, help=help_text, labels=labels, low=0, board="exporter")


JOURNAL_TORN: Final = _own(
    "journal_torn_frames_total", "counter", "Pages at the end of the journal's log that were no whole transaction at the start, and are dropped"
)
JOURNAL_BYTES: Final = _own("journal_bytes", "gauge", "Size of the journal on disk")
BUILD_INFO: Final = _own("build_info", "gauge", "Version of the exporter; always 1", "version")
OTLP_REQUESTS: Final = _own("requests_total", "counter", "OTLP requests answered", "signal", "status")
INGEST_QUEUE_BYTES: Final = _own("ingest_queue_bytes", "gauge", "Bytes of requests that wait for the journal; senders are told to slow down above 256 MiB")
DROPPED_SERIES_REASONS: Final = ("series_budget", "rollouters", "runs")
DROPPED_SERIES: Final = _own(
    "dropped_series_total",
    "counter",
    "Series of versions that left the page early for the series budget, of rollouters beyond 64 in a run, or of runs cut to their core",
    "reason",
)
PAGE_SERIES: Final = _own("series", "gauge", "Series of the runs on the last page")
SERIES_BUDGET: Final = _own("series_budget", "gauge", "Most series of runs that the page has at once; `--series-budget` sets it")
SCRAPES: Final = _own("scrapes_total", "counter", "Pages served on /metrics")
SCRAPE_SECONDS: Final = _own("scrape_duration_seconds", "gauge", "Time that answering the last GET /metrics took, waiting for others included")
RENDER_SECONDS: Final = _own("render_duration_seconds", "gauge", "Time that writing the last page took")
RENDER_ERRORS: Final = _own("render_errors_total", "counter", "Families left out of a page because writing them failed")
CONNECTIONS: Final = _own("connections", "gauge", "Connections that are open", "listener")
CONNECTIONS_ENDED: Final = _own(
    "connections_ended_total", "counter", "Connections ended to make room for new ones (crowded) or because nothing moved (stalled)", "listener", "reason"
)
WEB_CONFIG_RELOAD_FAILED: Final = _own(
    "web_config_reload_failed", "gauge", "Whether the web config file as it is now was refused; what was read before is in force", "listener"
)
CERTIFICATE_SOON_SECONDS: Final = 14 * 86_400
"""A certificate that ends sooner is told of: whoever renews by machine has done it by then, by hand there is time to."""
CERTIFICATE_EXPIRY: Final = _own(
    "certificate_expiry_timestamp_seconds", "gauge", "When the certificate that a listener shows ends", "listener"
)
REFUSED_REQUESTS: Final = _own(
    "refused_requests_total", "counter", "Requests turned away for their credentials (401), or with too many waiting for a check (429)", "listener", "status"
)
HANDSHAKES_FAILED: Final = _own(
    "handshakes_failed_total", "counter", "TLS handshakes that failed: plain HTTP, a client certificate that is missing or not ours to trust, or a client that does not trust ours", "listener"
)
UNATTRIBUTED_RECORDS: Final = _own("unattributed_records_total", "counter", "Refused records that name no run", "reason")

PUSH_QUEUE: Final = _own("push_queue", "gauge", "Versions and annexes that wait for OTLP push")
PUSH_OLDEST_AGE: Final = _own("push_queue_oldest_age_seconds", "gauge", "How long the oldest of them waits, 0 if none does")
PUSH_POINT_OUTCOMES: Final = ("accepted", "rejected")
PUSH_POINTS: Final = _own("push_points_total", "counter", "Points in delivered requests; rejected: by a partial success", "outcome")
PUSH_DROP_REASONS: Final = ("refused", "expired")
PUSH_DROPPED: Final = _own(
    "push_dropped_total", "counter", "Versions and annexes never pushed: the receiver refused one alone, or the retention was faster", "reason"
)
PUSH_REQUESTS: Final = _own("push_requests_total", "counter", "Push requests by HTTP status, none without an answer", "status")

FORWARD_BUFFERED: Final = _own("forward_buffered_bytes", "gauge", "Bytes of trace requests that wait to be forwarded")
FORWARD_OUTCOMES: Final = ("delivered", "refused", "dropped")
FORWARD_REQUESTS: Final = _own(
    "forward_requests_total", "counter", "Trace requests forwarded; refused: by the receiver, for good; dropped: the oldest of a full buffer", "outcome"
)

VERSION_TRAIN_STEPS: Final = "train_steps"
VERSION_SAMPLES: Final = "samples"
VERSION_COMPLETE: Final = "complete"
VERSION_PUBLISHED: Final = "published_timestamp_seconds"

LIVE_FAMILIES: Final[dict[str, Family]] = {
    schema.GAUGE_ROLLOUTER_STATE: ROLLOUTER_STATE,
    schema.GAUGE_TRAINER_STATE: TRAINER_STATE,
    schema.GAUGE_ROLLOUTER_DECODING: ROLLOUTER_DECODING,
    schema.GAUGE_ROLLOUTER_CAPACITY: ROLLOUTER_CAPACITY,
    schema.GAUGE_ROLLOUTER_PARAM_VERSION: ROLLOUTER_PARAM_VERSION,
    schema.GAUGE_QUEUE_CAPACITY: QUEUE_CAPACITY,
    schema.GAUGE_QUEUE_OLDEST_AGE: QUEUE_OLDEST_AGE,
    schema.GAUGE_BUDGET_USED: BUDGET_USED,
    schema.GAUGE_BUDGET_LIMIT: BUDGET_LIMIT,
    schema.GAUGE_IN_FLIGHT: SAMPLES_IN_FLIGHT,
    schema.GAUGE_QUEUED: SAMPLES_QUEUED,
}
"""Live gauges of the wire, and the family each is published as."""

SUM_FAMILIES: Final[dict[str, Family]] = {
    schema.SUM_FED: SAMPLES_FED,
    schema.SUM_GENERATED: SAMPLES_GENERATED,
    schema.SUM_SAMPLES: SAMPLES,
    schema.SUM_REISSUED: SAMPLES_REISSUED,
    schema.SUM_DUPLICATE_RESULTS: DUPLICATE_RESULTS,
    schema.SUM_ROLLOUTER_STATE_SECONDS: ROLLOUTER_STATE_SECONDS,
    schema.SUM_TRAINER_STATE_SECONDS: TRAINER_STATE_SECONDS,
    schema.SUM_TOKENS_GENERATED: TOKENS,
    schema.SUM_TELEMETRY_DROPPED: TELEMETRY_DROPPED,
}
"""Cumulative sums of the wire, and the counter that adds up the lives of each."""

ZERO_INITIALISED: Final[tuple[tuple[Family, tuple[str, ...]], ...]] = (
    *((VERSIONS_SEALED, (complete,)) for complete in ("true", "false")),
    *((VERSIONS_INCOMPLETE, (reason,)) for reason in INCOMPLETE_REASONS),
    *((LATE_RECORDS, (reason,)) for reason in LATE_REASONS),
    *((LOST_RECORDS, (role,)) for role in schema.ROLES),
    *((REJECTED_RECORDS, (reason,)) for reason in REJECT_REASONS),
    *((family, ()) for family in (VERSIONS_EVICTED, ATTEMPTS_INFERRED, UNKNOWN_SPANS, TRAIN_STEPS, SAMPLES_FED, SAMPLES_GENERATED)),
    *((TOKENS, (kind,)) for kind in TOKEN_KINDS),
    *((SAMPLES, (outcome,)) for outcome in schema.OUTCOMES),
    *((SYNC_PHASE_SECONDS, (phase,)) for phase in schema.SYNC_PHASES),
    *((NONFINITE_VALUES, (name,)) for name in (*METRIC_BY_NAME, "user")),
    *((OUT_OF_RANGE, (metric.name,)) for metric in METRICS),
)
"""Counter children that exist from a run's first record on, so that `increase()` sees their first event."""

LEDGER_FAMILIES: Final[tuple[Family, ...]] = tuple(value for value in list(globals().values()) if isinstance(value, Family))


def _derived(metric: Metric) -> tuple[Family, ...]:
    shared = {"low": metric.low, "high": metric.high, "signed": metric.signed, "board": metric.board}
    if metric.statistic != "distribution":
        return (msgspec.convert({"name": metric.family(), "kind": "gauge", "help": metric.help, **shared}, Family),)
    gauges = [
        {"name": metric.family(statistic), "kind": "gauge", "help": f"{metric.help}: {words} of the newest version", **shared}
        for statistic, words in zip(DISTRIBUTION_STATISTICS, ("mean", "minimum", "maximum", "standard deviation"), strict=True)
    ]
    histogram = {"name": metric.family(), "kind": "histogram", "help": metric.help, **shared}
    return tuple(msgspec.convert(family, Family) for family in [*gauges, histogram])


METRIC_FAMILIES: Final[dict[str, tuple[Family, ...]]] = {metric.name: _derived(metric) for metric in METRICS}

WINDOWED_LEDGER_GAUGES: Final = (
    ROLLOUTER_IDLE,
    ROLLOUTER_UTILIZATION,
    ROLLOUTER_ACTIVE,
    ROLLOUTER_VERSION,
    ROLLOUTERS_IDLE,
    ROLLOUTERS_IDLE_MIN,
    ROLLOUTERS_IDLE_MAX,
    ROLLOUTERS_UTILIZATION,
    ROLLOUTERS_UTILIZATION_MIN,
    ROLLOUTERS_UTILIZATION_MAX,
    TRAINER_IDLE,
    TRAINER_WAIT,
    TRAINER_ACTIVE,
    TRAINER_VERSION,
)


def version_family(family: Family) -> Family:
    """The same gauge in the version window: `asyncrl_version_<family without prefix>`."""
    labels = ("run", "attempt", "param_version", *family.labels[1:])
    name = PREFIX + "version_" + family.name.removeprefix(PREFIX)
    return msgspec.structs.replace(family, name=name, kind="gauge", labels=labels, board="versions")


def timed_family(family: Family) -> Family:
    """A family of the version window where time tells the versions apart: without attempt and param_version."""
    return msgspec.structs.replace(family, labels=("run", *family.labels[3:]))


def _version_only(name: str, help_text: str) -> Family:
    return version_family(_gauge(name, help_text, low=0))


VERSION_ONLY: Final[dict[str, Family]] = {
    VERSION_TRAIN_STEPS: _version_only(VERSION_TRAIN_STEPS, "Train steps of the version"),
    VERSION_SAMPLES: _version_only(VERSION_SAMPLES, "Samples consumed by the train steps of the version"),
    VERSION_COMPLETE: _version_only(VERSION_COMPLETE, "1 if every record of the version arrived, else 0"),
    VERSION_PUBLISHED: _version_only(VERSION_PUBLISHED, "Time of the version: the end of its weight sync"),
}

ANNEX_KINDS: Final[dict[str, str]] = {schema.VALIDATION: "validation", schema.CHECKPOINT: "checkpoint", schema.GENERATED_COHORT: "generated"}


def annex_family(kind: str, family: Family) -> Family:
    """A gauge of an annex in the version window, e.g. `asyncrl_version_generated_reward_mean`."""
    words = {"validation": "Validation", "checkpoint": "Checkpoint", "generated": "Generated cohort"}[kind]
    named = msgspec.structs.replace(family, name=f"{PREFIX}{kind}_{family.name.removeprefix(PREFIX)}", help=f"{words}: {family.help}")
    return version_family(named)


ANNEX_SAMPLES: Final[dict[str, Family]] = {kind: annex_family(kind, _gauge("samples", "samples it is over", low=0)) for kind in ("validation", "generated")}
CHECKPOINT_BYTES: Final = annex_family("checkpoint", _gauge("bytes", "size", low=0))

WINDOW_FAMILIES: Final[tuple[Family, ...]] = (
    *(version_family(family) for family in WINDOWED_LEDGER_GAUGES),
    *(version_family(family) for metric in METRICS if metric.windowed for family in METRIC_FAMILIES[metric.name] if family.kind == "gauge"),
    *VERSION_ONLY.values(),
    *ANNEX_SAMPLES.values(),
    CHECKPOINT_BYTES,
    *(
        annex_family(kind, family)
        for metric in METRICS
        if "annex" in metric.cohort
        for kind in ("validation", "generated")
        for family in METRIC_FAMILIES[metric.name]
        if family.kind == "gauge"
    ),
)

MAX_ROLLOUTERS: Final = 64
"""Beyond this many rollouters only their merged values, minima and maxima are series."""
ROLLOUTER_SERIES: Final = sum("rollouter" in family.labels for family in WINDOW_FAMILIES)
"""The most series of one rollouter and one version."""


def version_series(rollouters: int) -> int:
    """The most series that a version with so many rollouters has in the version window."""
    shown = rollouters if rollouters <= MAX_ROLLOUTERS else 0
    return len(WINDOW_FAMILIES) - ROLLOUTER_SERIES + ROLLOUTER_SERIES * shown


FAMILIES: Final[tuple[Family, ...]] = (*LEDGER_FAMILIES, *(family for families in METRIC_FAMILIES.values() for family in families), *WINDOW_FAMILIES)
FAMILY_BY_NAME: Final[dict[str, Family]] = {family.name: family for family in FAMILIES}


def metric_family(name: str, statistic: str = "") -> Family:
    """The latest gauge of a metric; of a distribution that of the statistic, or its histogram without one."""
    return FAMILY_BY_NAME[METRIC_BY_NAME[name].family(statistic)]


VERSIONED: Final[dict[str, Family]] = {
    family.name: version_family(family)
    for family in (*WINDOWED_LEDGER_GAUGES, *(family for metric in METRICS if metric.windowed for family in METRIC_FAMILIES[metric.name]))
    if family.kind == "gauge"
}
"""The version-window family of each latest gauge that has one."""


def unknown_family(name: str, help_text: str, *labels: str) -> Family:
    """A gauge whose name a sender chose."""
    return Family(name=name, kind="gauge", help=help_text, labels=("run", *labels))
