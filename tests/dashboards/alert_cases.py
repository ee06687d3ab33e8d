"""Every alert: what makes it fire and when, what just does not, and when it is over. Long because it is a table.

A case begins as a healthy run; from minute `since` to `until` its series are bad. The alert fires `after` minutes
later, and is over `lingers` minutes after the end. In `edges` they are at the threshold, or a condition is missing:
it never fires. Bad values lie within a factor of two of the threshold, edges nearer: a threshold that was doubled
or halved is noticed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.dashboards.healthy_run import (
    OF_HOST,
    OF_RUN,
    ROLLOUTERS,
    STALENESS_BUCKETS,
    VERSIONS,
    Change,
    Series,
    Values,
    always,
    count,
    event,
    every,
    frozen,
    gone,
    level,
    noisy,
    now,
    rate,
    series,
)

Changes = Mapping[str, Change]


@dataclass(frozen=True, kw_only=True, slots=True)
class AlertCase:
    alert: str
    bad: Changes
    after: int
    lingers: int
    edges: tuple[Changes, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    """Beside job and run."""
    base: Series = field(default_factory=dict)
    """What is otherwise than in the healthy run, all the time."""
    since: int = 30
    until: int = 70
    no_run: bool = False
    """Whether it is of an exporter or a GPU: not over with the run, and without its label."""
    of_instance: bool = False
    """Whether it names the exporter, so that two of them are two alerts."""
    of_host: bool = False
    """Whether it names a host, in place of an exporter or run."""
    outlives_run: bool = False
    """Whether it fires for a run that has ended: an event, or the end itself."""
    without: str = ""
    """Why it fires, or need not be looked at, where the series of `bad` are missing altogether."""


TRAINER_SEEN = 'asyncrl_exporter_source_last_seen_timestamp_seconds{role="trainer",rollouter=""}'
ROLLOUTER_SEEN = 'asyncrl_exporter_source_last_seen_timestamp_seconds{role="rollouter",rollouter="1"}'
TRAINER_OFFSET = 'asyncrl_exporter_source_clock_offset_seconds{role="trainer",rollouter=""}'
COMPLETED = 'asyncrl_run_status{status="completed"}'
"""Whoever says so: an exporter that does is right, and others may not have heard of it."""
BUILD = 'asyncrl_exporter_build_info{version="1"}'
GPU_1 = 'gpu="1"'


def absent(minute: int) -> None:
    """Never on the page."""


def xid(code: int, message: str) -> str:
    return series("DCGM_FI_DEV_XID_ERRORS", gpu="1", err_code=str(code), err_msg=message)


def elsewhere(family: str, value: float) -> dict[str, Values]:
    """The same GPU of a host of the same name in another cluster."""
    return {series(family, cluster="other", gpu="1"): always(value)}


def behind(minutes: int) -> Change:
    """A time that is always so much in the past."""
    return level(now, lambda minute: 60 * (minute - minutes))


def time_stops(family: str) -> dict[str, Change]:
    return {f"{family}{{}}": frozen(OF_RUN[f"{family}{{}}"])}


def state(family: str, usual: str, other: str, **labels: str) -> dict[str, Change]:
    """A process that is in another state meanwhile; the states of the healthy run, and the other one."""
    return {
        series(family, state=usual, **labels): level(1, 0),
        series(family, state=other, **labels): level(0, 1),
    }


def trainer_state(other: str) -> dict[str, Change]:
    return state("asyncrl_trainer_state", "training", other)


def trainer_seconds(**rates: float) -> dict[str, Change]:
    """Seconds per minute in each state, in place of those of the healthy run."""
    usual = {"training": 50, "waiting_samples": 6, "weight_sync": 4}
    return {
        series("asyncrl_trainer_state_seconds_total", state=name): rate(usual.get(name, 0), seconds)
        for name, seconds in rates.items()
    }


def rollouter_seconds(**rates: float) -> dict[str, Change]:
    usual = {"generating": 54, "paused_staleness": 6}
    return {
        series("asyncrl_rollouter_state_seconds_total", rollouter=slot, state=name): rate(
            usual.get(name, 0), seconds
        )
        for slot in ROLLOUTERS
        for name, seconds in rates.items()
    }


def samples(**rates: float) -> dict[str, Change]:
    """Samples per minute by outcome."""
    usual = {"trained": 18, "filtered_zero_variance": 2}
    return {
        series("asyncrl_samples_total", outcome=name): rate(usual.get(name, 0), count_)
        for name, count_ in rates.items()
    }


def staleness(shares: Mapping[int, float]) -> dict[str, Change]:
    """Of 100 responses a minute, how many have at most this staleness; of those above the last bound all have."""

    def share(bound: str) -> float:
        return next((count_ for most, count_ in shares.items() if float(bound) <= most), 100)

    return {
        series("asyncrl_staleness_versions_bucket", le=bound): rate(
            50 if bound == "0" else 100, min(50, share(bound)) if bound == "0" else share(bound)
        )
        for bound in STALENESS_BUCKETS
    }


def only_once(since: int, until: int) -> Values:
    """The time of something that happens once, and then not before the end."""
    return lambda minute: None if minute < since else now(since if minute < until else minute)


SILENT_TRAINER = {name: gone(OF_RUN[name]) for name in OF_RUN if name.startswith("asyncrl_trainer_state{")}
SILENT_ROLLOUTER = {
    name: gone(OF_RUN[name])
    for name in OF_RUN
    if name.startswith("asyncrl_rollouter_state{") and 'rollouter="1"' in name
}
RUN_GONE = {name: gone(OF_RUN[name]) for name in OF_RUN if name.startswith("asyncrl_run_status")}
STALL = time_stops("asyncrl_last_version_timestamp_seconds")


def stalled(alert: str, *changes: Changes, edges: tuple[Changes, ...] = ()) -> AlertCase:
    """The limit is 10 minutes: three usual times of two minutes are less. 11 are more, 2 more it has to last."""
    together: dict[str, Change] = {**STALL}
    for change in changes:
        together |= change
    return AlertCase(
        alert=alert, bad=together, after=13, lingers=0, edges=edges, without="overdue all the more"
    )


def lengths_of_versions(seconds: float | None) -> dict[str, Values]:
    """Of those on the page, in place of two minutes."""
    return {
        series(
            "asyncrl_version_trainer_version_seconds", attempt="1", param_version=version
        ): lambda minute: seconds
        for version in VERSIONS
    }


def instead(alert: str, gauge: str, *absent: str) -> AlertCase:
    """Of a run without some families, which says the same by a gauge of its newest version."""
    return AlertCase(
        alert=alert,
        bad={gauge: level(0.1, 0.8)},
        base={name: lambda minute: None for name in OF_RUN if name.startswith(absent)},
        after=11,
        lingers=4,
        edges=({gauge: level(0.1, 0.49)},),
    )


def happens(alert: str, family: str) -> AlertCase:
    """An event is news for 15 minutes, if the attempt began before it."""
    name = f"asyncrl_last_{family}_timestamp_seconds{{}}"
    return AlertCase(
        alert=alert,
        bad={name: event()},
        after=0,
        lingers=0,
        until=45,
        edges=(
            {name: event(minute_of_event=15)},
            {name: event(), "asyncrl_attempt_start_timestamp_seconds{}": level(0, 30 * 60)},
        ),
        outlives_run=True,
    )


def reported(alert: str, metric: str, usual: float, other: float, edge: float) -> AlertCase:
    name = f'asyncrl_reported_{metric}{{source="verl"}}'
    return AlertCase(
        alert=alert,
        bad={name: level(usual, other)},
        after=2,
        lingers=15,
        edges=({name: level(usual, edge)},),
        labels={"source": "verl", "metric": f"asyncrl_reported_{metric}"},
    )


def in_its_first_hour(
    alert: str, family: str, usual: float | Values, other: float, lingers: int
) -> AlertCase:
    """Of an attempt that began in minute 15: what was before its minute 30 is no usual value yet."""
    return AlertCase(
        alert=alert,
        bad={f"asyncrl_{family}{{}}": level(usual, other)},
        base={"asyncrl_attempt_start_timestamp_seconds{}": always(15 * 60)},
        after=18,
        lingers=lingers,
        since=48,
        until=77,
    )


def learning(
    alert: str, family: str, usual: float, other: float, after: int, lingers: int, *edges: Changes
) -> AlertCase:
    return AlertCase(
        alert=alert,
        bad={f"asyncrl_{family}{{}}": level(usual, other)},
        after=after,
        lingers=lingers,
        since=40,
        until=75,
        edges=edges,
    )


CASES = (
    # ---- exporter
    AlertCase(alert="AsyncRLExporterDown", bad={BUILD: gone(always(1))}, after=5, lingers=0, no_run=True),
    AlertCase(
        alert="AsyncRLExporterReplicaDown",
        bad={BUILD: gone(always(1)), "up{}": level(1, 0)},
        after=7,
        lingers=0,
        no_run=True,
        of_instance=True,
        without="no exporter was ever seen",
    ),
    AlertCase(
        alert="AsyncRLScrapesFailing",
        bad={"up{}": level(1, lambda minute: float(minute % 5 > 0))},
        after=35,
        lingers=26,
        edges=(
            {"up{}": level(1, lambda minute: float(minute % 10 > 0))},
            {"up{}": level(1, lambda minute: float(not 40 <= minute < 60))},
        ),
        until=100,
        no_run=True,
        of_instance=True,
    ),
    AlertCase(
        alert="AsyncRLJournalUnavailable",
        bad={'asyncrl_exporter_requests_total{signal="traces",status="503"}': rate(0, 30)},
        after=5,
        lingers=4,
        edges=(
            {  # another exporter never said 503, and has no such series
                'asyncrl_exporter_requests_total{signal="traces",status="503"}': rate(0, 30),
                'asyncrl_exporter_requests_total{signal="traces",status="200",zone="b"}': rate(60, 60),
            },
        ),
        no_run=True,
    ),
    AlertCase(
        alert="AsyncRLReplicaJournalUnavailable",
        bad={'asyncrl_exporter_requests_total{signal="traces",status="503"}': rate(0, 30)},
        after=5,
        lingers=4,
        no_run=True,
        of_instance=True,
    ),
    AlertCase(
        alert="AsyncRLSeriesBudgetExceeded",
        bad={"asyncrl_window_stride_versions{}": level(1, 2)},
        after=20,
        lingers=30,
        edges=({"asyncrl_window_stride_versions{}": level(1, 1)},),
    ),
    AlertCase(
        alert="AsyncRLWebConfigRejected",
        bad={'asyncrl_exporter_web_config_reload_failed{listener="scrape"}': level(0, 1)},
        after=2,
        lingers=0,
        labels={"listener": "scrape"},
        no_run=True,
    ),
    AlertCase(
        alert="AsyncRLCertificateEnding",
        bad={'asyncrl_exporter_certificate_expiry_timestamp_seconds{listener="otlp"}': level(1e7, 1e6)},
        after=5,
        lingers=0,
        edges=(
            {'asyncrl_exporter_certificate_expiry_timestamp_seconds{listener="otlp"}': level(1e7, 1_220_000)},
        ),
        labels={"listener": "otlp"},
        no_run=True,
        of_instance=True,
    ),
    AlertCase(
        alert="AsyncRLCredentialsRefused",
        bad={'asyncrl_exporter_refused_requests_total{listener="otlp",status="401"}': rate(0, 1.5)},
        after=8,
        lingers=16,
        edges=({'asyncrl_exporter_refused_requests_total{listener="otlp",status="401"}': rate(0, 0.95)},),
        labels={"listener": "otlp", "status": "401"},
        no_run=True,
    ),
    AlertCase(
        alert="AsyncRLPushBehind",
        bad={"asyncrl_exporter_push_queue_oldest_age_seconds{}": level(0, lambda minute: 60 * (minute - 30))},
        after=18,
        lingers=0,
        edges=({"asyncrl_exporter_push_queue_oldest_age_seconds{}": level(0, 900)},),
        no_run=True,
    ),
    # ---- telemetry
    AlertCase(
        alert="AsyncRLRunFailed",
        bad={
            'asyncrl_run_status{status="running"}': level(1, 0),
            'asyncrl_run_status{status="failed"}': level(0, 1),
        },
        after=0,
        lingers=15,
        labels={"status": "failed"},
        until=45,
        outlives_run=True,
    ),
    AlertCase(
        alert="AsyncRLRunVanished",
        bad=RUN_GONE,
        after=10,
        lingers=0,
        edges=({**RUN_GONE, BUILD: gone(always(1))}, {**RUN_GONE, COMPLETED: gone(always(1))}),
        outlives_run=True,
    ),
    AlertCase(  # one of the same name was over in minute 10: of a run that began later that says nothing
        alert="AsyncRLRunVanished",
        bad={**RUN_GONE, COMPLETED: gone(lambda minute: float(minute < 10))},
        base={"asyncrl_attempt_start_timestamp_seconds{}": always(15 * 60)},
        after=10,
        lingers=0,
        outlives_run=True,
    ),
    AlertCase(
        alert="AsyncRLTrainerSilent",
        bad={TRAINER_SEEN: frozen(now), **SILENT_TRAINER},
        after=6,
        lingers=0,
        edges=({TRAINER_SEEN: behind(3)},),
        labels={"role": "trainer"},
    ),
    AlertCase(
        alert="AsyncRLRollouterSilent",
        bad={ROLLOUTER_SEEN: frozen(now), **SILENT_ROLLOUTER},
        after=6,
        lingers=30,
        edges=(
            {ROLLOUTER_SEEN: behind(3)},
            {ROLLOUTER_SEEN: frozen(now), **SILENT_ROLLOUTER, TRAINER_SEEN: behind(4)},
        ),
        labels={"role": "rollouter", "rollouter": "1"},
        base={TRAINER_SEEN: lambda minute: 60 * (minute - 2)},  # it is not silent yet
    ),
    AlertCase(
        alert="AsyncRLClockSkewed",
        bad={TRAINER_OFFSET: level(0.5, 15)},
        after=10,
        lingers=0,
        edges=({TRAINER_OFFSET: level(0.5, 10)},),
        labels={"role": "trainer"},
    ),
    AlertCase(
        alert="AsyncRLClockSkewed",
        bad={TRAINER_OFFSET: level(0.5, -15)},
        after=10,
        lingers=0,
        edges=({TRAINER_OFFSET: level(0.5, -10)},),
        labels={"role": "trainer"},
    ),
    AlertCase(
        alert="AsyncRLTelemetryDropped",
        bad={'asyncrl_telemetry_dropped_total{kind="control"}': rate(0, 1)},
        after=0,
        lingers=29,
        labels={"kind": "control"},
        outlives_run=True,
    ),
    happens("AsyncRLRecordsLost", "lost_records"),
    AlertCase(
        alert="AsyncRLRecordsLate",
        bad={'asyncrl_late_records_total{reason="sealed"}': rate(0, 0.4)},
        after=12,
        lingers=1,
        edges=({'asyncrl_late_records_total{reason="sealed"}': rate(0, 0.33)},),
        labels={"reason": "sealed"},
        outlives_run=True,
    ),
    happens("AsyncRLRecordsRejected", "rejected"),
    # ---- data
    reported("AsyncRLReportedRatioOutOfRange", "rollouter_idle_ratio", 0.5, 1.0015, 1.0009),
    reported("AsyncRLReportedRatioOutOfRange", "rollouter_idle_ratio", 0.5, -0.0015, -0.0009),
    reported("AsyncRLReportedDurationInvalid", "trainer_version_seconds", 120, 0, 0.01),
    reported("AsyncRLReportedDurationInvalid", "rollouter_active_seconds", 120, -1, 0),
    AlertCase(
        alert="AsyncRLReportedActiveExceedsVersion",
        bad={'asyncrl_reported_rollouter_active_seconds{source="verl"}': level(100, 120.15)},
        after=2,
        lingers=15,
        edges=({'asyncrl_reported_rollouter_active_seconds{source="verl"}': level(100, 120.1)},),
        labels={"source": "verl"},
        base={'asyncrl_reported_rollouter_version_seconds{source="verl"}': always(120)},
    ),
    AlertCase(
        alert="AsyncRLReportedActiveExceedsVersion",
        bad={'asyncrl_reported_trainer_active_seconds{source="verl"}': level(100, 120.15)},
        after=2,
        lingers=15,
        edges=({'asyncrl_reported_trainer_active_seconds{source="verl"}': level(100, 120.1)},),
        labels={"source": "verl"},
        base={'asyncrl_reported_trainer_version_seconds{source="verl"}': always(120)},
    ),
    reported("AsyncRLReportedStalenessNegative", "staleness_mean_versions", 1, -1, 0),
    happens("AsyncRLValuesOutOfRange", "out_of_range"),
    happens("AsyncRLNonFinite", "nonfinite"),
    happens("AsyncRLVersionsIncomplete", "incomplete"),
    happens("AsyncRLVersionsUnseen", "evicted"),
    happens("AsyncRLVersionBackward", "version_backward"),
    AlertCase(
        alert="AsyncRLSampleAccountBroken",
        bad={"asyncrl_samples_queued{}": level(4, 5)},
        after=10,
        lingers=0,
        edges=({"asyncrl_samples_queued{}": level(4, 4)},),
    ),
    # ---- progress
    stalled(
        "AsyncRLVersionStalled",
        edges=({"asyncrl_last_version_timestamp_seconds{}": behind(10)}, {**STALL, COMPLETED: level(0, 1)}),
    ),
    *(  # attempt 1 was over in minute 10: of another attempt, or of one that began later, that says nothing
        AlertCase(
            alert="AsyncRLVersionStalled",
            bad=STALL,
            base={COMPLETED: lambda minute: float(minute < 10), **begun_again},
            after=13,
            lingers=0,
            without="overdue all the more",
        )
        for begun_again in (
            {"asyncrl_run_attempt{}": lambda minute: 1 if minute < 10 else 2},
            {"asyncrl_attempt_start_timestamp_seconds{}": always(15 * 60)},
        )
    ),
    AlertCase(  # three usual times of five minutes are more than ten minutes
        alert="AsyncRLVersionStalled",
        bad=STALL,
        after=18,
        lingers=0,
        edges=({"asyncrl_last_version_timestamp_seconds{}": behind(15)},),
        base=lengths_of_versions(300),
        without="overdue all the more",
    ),
    AlertCase(  # before the first version: half an hour
        alert="AsyncRLVersionStalled",
        bad={"asyncrl_attempt_start_timestamp_seconds{}": level(now, 30 * 60)},
        after=33,
        lingers=0,
        edges=({"asyncrl_attempt_start_timestamp_seconds{}": behind(30)},),
        base={"asyncrl_last_version_timestamp_seconds{}": always(0)},
        until=75,
        without="no run at all",
    ),
    AlertCase(  # the same of a trainer that says no more than when each version was out
        alert="AsyncRLVersionStalled",
        bad=STALL,
        after=18,
        lingers=0,
        base={
            **lengths_of_versions(None),
            **{
                series(
                    "asyncrl_version_published_timestamp_seconds", attempt="1", param_version=version
                ): always(300 * float(version))
                for version in VERSIONS
            },
        },
        without="overdue all the more",
    ),
    AlertCase(  # a third of its time it saves: 10 minutes are over after 15
        alert="AsyncRLVersionStalled",
        bad={**STALL, **trainer_seconds(checkpointing=20)},
        after=18,
        lingers=0,
        without="overdue all the more",
    ),
    stalled(
        "AsyncRLStalledTrainerStarved",
        trainer_state("waiting_samples"),
        edges=(STALL, trainer_state("waiting_samples")),
    ),
    stalled(
        "AsyncRLStalledRolloutersPaused",
        state("asyncrl_rollouter_state", "generating", "paused_staleness", rollouter="0"),
        state("asyncrl_rollouter_state", "generating", "paused_queue_full", rollouter="1"),
        edges=(
            {**STALL, **state("asyncrl_rollouter_state", "generating", "paused_staleness", rollouter="0")},
        ),
    ),
    stalled(
        "AsyncRLWeightSyncStuck", trainer_state("weight_sync"), edges=(STALL, trainer_state("weight_sync"))
    ),
    AlertCase(
        alert="AsyncRLPauseTooLong",
        bad={**time_stops("asyncrl_last_train_step_timestamp_seconds"), **trainer_state("validating")},
        after=63,
        lingers=0,
        edges=(
            {"asyncrl_last_train_step_timestamp_seconds{}": behind(60), **trainer_state("checkpointing")},
        ),
        until=110,
    ),
    AlertCase(  # a rollouter that validates, while the trainer waits for samples
        alert="AsyncRLPauseTooLong",
        bad={
            **time_stops("asyncrl_last_train_step_timestamp_seconds"),
            **trainer_state("waiting_samples"),
            **state("asyncrl_rollouter_state", "generating", "validating", rollouter="1"),
        },
        after=63,
        lingers=0,
        edges=(
            {
                **time_stops("asyncrl_last_train_step_timestamp_seconds"),
                **state("asyncrl_rollouter_state", "generating", "paused_staleness", rollouter="1"),
            },
        ),
        until=110,
    ),
    AlertCase(  # a version every five minutes: three behind after 15
        alert="AsyncRLRollouterBehind",
        bad={series("asyncrl_rollouter_param_version", rollouter="1"): frozen(count(5))},
        after=20,
        lingers=0,
        edges=(
            {
                series("asyncrl_rollouter_param_version", rollouter="1"): level(count(5), 6),
                "asyncrl_param_version{}": level(count(5), 8),
            },
            {"asyncrl_param_version{}": level(count(5), lambda minute: minute // 5 + 3)},
        ),
        labels={"rollouter": "1"},
        base={
            "asyncrl_param_version{}": count(5),
            series("asyncrl_rollouter_param_version", rollouter="0"): count(5),
            series("asyncrl_rollouter_param_version", rollouter="1"): count(5),
        },
    ),
    AlertCase(
        alert="AsyncRLWeightSyncSlow",
        bad={"asyncrl_weight_sync_mean_seconds{}": level(4, 36)},
        after=15,
        lingers=5,
        edges=({"asyncrl_weight_sync_mean_seconds{}": level(4, 23.9)},),
    ),
    AlertCase(
        alert="AsyncRLCheckpointOld",
        bad=time_stops("asyncrl_last_checkpoint_timestamp_seconds"),
        after=56,
        lingers=0,
        edges=({"asyncrl_last_checkpoint_timestamp_seconds{}": behind(60)},),
        until=100,
    ),
    AlertCase(  # a run that was resumed ten minutes later: from then on
        alert="AsyncRLCheckpointOld",
        bad={
            **time_stops("asyncrl_last_checkpoint_timestamp_seconds"),
            "asyncrl_attempt_start_timestamp_seconds{}": level(0, lambda minute: 60 * 40 * (minute >= 40)),
        },
        after=76,
        lingers=0,
        until=115,
        without="a run without checkpoints, which the others look at",
    ),
    AlertCase(  # an hour between checkpoints: two are the limit
        alert="AsyncRLCheckpointOld",
        bad={"asyncrl_last_checkpoint_timestamp_seconds{}": frozen(every(60))},
        base={"asyncrl_last_checkpoint_timestamp_seconds{}": every(60)},
        since=130,
        after=116,
        lingers=0,
        until=260,
    ),
    AlertCase(  # one checkpoint ever: six hours
        alert="AsyncRLCheckpointOld",
        bad={"asyncrl_last_checkpoint_timestamp_seconds{}": only_once},
        after=366,
        lingers=0,
        until=420,
    ),
    # ---- waiting
    AlertCase(
        alert="AsyncRLTrainerStarved",
        bad=trainer_seconds(training=17, waiting_samples=39),
        after=15,
        lingers=4,
        edges=(trainer_seconds(training=26.1, waiting_samples=29.9),),
        without="the newest version's wait ratio says that all is well",
    ),
    AlertCase(
        alert="AsyncRLRolloutersIdle",
        bad=rollouter_seconds(generating=21, paused_staleness=39),
        after=15,
        lingers=4,
        edges=(
            rollouter_seconds(generating=30.1, paused_staleness=29.9),
            rollouter_seconds(generating=14, paused_staleness=6, validating=40),
            rollouter_seconds(generating=21, paused_staleness=39)
            | trainer_seconds(training=30, checkpointing=20),
        ),
    ),
    instead("AsyncRLTrainerStarved", "asyncrl_trainer_wait_ratio{}", "asyncrl_trainer_state_seconds_total"),
    instead(
        "AsyncRLTrainerStarved",
        'asyncrl_reported_trainer_idle_ratio{source="verl"}',
        "asyncrl_trainer_state_seconds_total",
        "asyncrl_trainer_wait_ratio",
    ),
    instead(
        "AsyncRLRolloutersIdle", "asyncrl_rollouters_idle_ratio{}", "asyncrl_rollouter_state_seconds_total"
    ),
    *(
        instead(
            "AsyncRLRolloutersIdle",
            f'asyncrl_reported_{name}_idle_ratio{{source="verl"}}',
            "asyncrl_rollouter_state_seconds_total",
            "asyncrl_rollouters_idle_ratio",
        )
        for name in ("rollouters", "rollouter")
    ),
    AlertCase(
        alert="AsyncRLBothSidesIdle",
        bad=trainer_seconds(training=32, waiting_samples=24)
        | rollouter_seconds(generating=36, paused_staleness=24),
        after=15,
        lingers=4,
        edges=(
            trainer_seconds(training=32, waiting_samples=24)
            | rollouter_seconds(generating=42.1, paused_staleness=17.9),
            trainer_seconds(training=38.1, waiting_samples=17.9)
            | rollouter_seconds(generating=36, paused_staleness=24),
            trainer_seconds(training=38.1, waiting_samples=17.9)
            | rollouter_seconds(generating=42.1, paused_staleness=17.9),
        ),
    ),
    AlertCase(
        alert="AsyncRLRolloutersUnderused",
        bad={
            "asyncrl_rollouters_utilization_ratio{}": level(0.8, 0.2),
            **rollouter_seconds(generating=42, paused_staleness=18),
        },
        after=19,
        lingers=2,
        edges=(
            {"asyncrl_rollouters_utilization_ratio{}": level(0.8, 0.31)},
            {
                "asyncrl_rollouters_utilization_ratio{}": level(0.8, 0.2),
                **rollouter_seconds(generating=21, paused_staleness=39),
            },
        ),
    ),
    # ---- samples
    AlertCase(
        alert="AsyncRLStalenessAboveLimit",
        bad={"asyncrl_staleness_max_versions{}": level(2, 5)},
        after=0,
        lingers=14,
        edges=({"asyncrl_staleness_max_versions{}": level(2, 4)},),
    ),
    AlertCase(
        alert="AsyncRLStalenessHigh",
        bad=staleness({8: 90}),
        after=12,
        lingers=7,
        edges=(staleness({6: 60, 8: 96}),),
    ),
    AlertCase(
        alert="AsyncRLSamplesDropped",
        bad=samples(dropped_stale=1.7),
        after=14,
        lingers=5,
        edges=(samples(dropped_stale=1), samples(dropped_rollback=1.7)),
    ),
    AlertCase(
        alert="AsyncRLSamplesFailed",
        bad=samples(failed=1.7),
        after=14,
        lingers=5,
        edges=(samples(failed=1),),
    ),
    AlertCase(
        alert="AsyncRLSamplesAllFiltered",
        bad=samples(trained=1.4, filtered_zero_variance=18.6),
        after=24,
        lingers=0,
        edges=(samples(trained=2.1, filtered_zero_variance=17.9),),
    ),
    # ---- learning
    AlertCase(  # usually 0.5 with a standard deviation of 0.1
        alert="AsyncRLRewardCollapsed",
        bad={"asyncrl_reward_mean{}": level(noisy(0.5, 0.1), 0.1)},
        after=17,
        lingers=16,
        since=40,
        until=70,
        edges=(
            {"asyncrl_reward_mean{}": level(noisy(0.5, 0.02), 0.26)},
            {"asyncrl_reward_mean{}": level(noisy(0.5, 0.2), 0.1)},
        ),
    ),
    in_its_first_hour("AsyncRLRewardCollapsed", "reward_mean", noisy(0.5, 0.1), 0.1, 16),
    in_its_first_hour("AsyncRLEntropyCollapsed", "entropy", 1, 0.2, 1),
    in_its_first_hour("AsyncRLKLReferenceBlownUp", "kl_reference", 0.015, 0.18, 1),
    in_its_first_hour("AsyncRLGradNormBlownUp", "grad_norm", 0.5, 7.5, 5),
    learning(
        "AsyncRLEntropyCollapsed",
        "entropy",
        1,
        0.2,
        19,
        1,
        {"asyncrl_entropy{}": level(1, 0.31)},
        {"asyncrl_entropy{}": level(1, 0.2), "asyncrl_reward_mean{}": level(noisy(0.5, 0.1), 0.9)},
    ),
    learning(
        "AsyncRLKLBehaviourHigh",
        "kl_behaviour",
        0.01,
        0.15,
        15,
        5,
        {"asyncrl_kl_behaviour{}": level(0.01, 0.099)},
    ),
    AlertCase(  # of an attempt that has just begun: its first quarter of an hour says nothing
        alert="AsyncRLKLBehaviourHigh",
        bad={
            "asyncrl_kl_behaviour{}": level(0.01, 0.15),
            "asyncrl_attempt_start_timestamp_seconds{}": level(0, 30 * 60),
        },
        after=21,
        lingers=5,
    ),
    AlertCase(  # with versions of eight minutes: its first three
        alert="AsyncRLKLBehaviourHigh",
        bad={
            "asyncrl_kl_behaviour{}": level(0.01, 0.15),
            "asyncrl_attempt_start_timestamp_seconds{}": level(0, 30 * 60),
        },
        after=29,
        lingers=5,
        base=lengths_of_versions(480),
    ),
    learning(
        "AsyncRLKLReferenceBlownUp",
        "kl_reference",
        0.015,
        0.18,
        19,
        1,
        {"asyncrl_kl_reference{}": level(0.015, 0.149)},
        {"asyncrl_kl_reference{}": level(0.005, 0.09)},
    ),
    learning(
        "AsyncRLGradNormBlownUp", "grad_norm", 0.5, 7.5, 15, 5, {"asyncrl_grad_norm{}": level(0.5, 4.9)}
    ),
    learning(  # from nearly nothing, which is no zero
        "AsyncRLGradNormBlownUp",
        "grad_norm",
        1.5e-8,
        2.25e-7,
        15,
        5,
        {"asyncrl_grad_norm{}": level(9e-9, 1.35e-7)},
    ),
    learning(
        "AsyncRLGradNormZero", "grad_norm", 0.5, 8e-9, 25, 0, {"asyncrl_grad_norm{}": level(0.5, 1.5e-8)}
    ),
    learning(
        "AsyncRLImportanceWeightsDegenerate",
        "effective_sample_size_ratio",
        0.9,
        0.2,
        18,
        2,
        {"asyncrl_effective_sample_size_ratio{}": level(0.9, 0.31)},
    ),
    learning(
        "AsyncRLImportanceRatioBiased",
        "importance_ratio_mean",
        1,
        3,
        13,
        7,
        {"asyncrl_importance_ratio_mean{}": level(1, 1.9)},
    ),
    learning(
        "AsyncRLImportanceRatioBiased",
        "importance_ratio_mean",
        1,
        0.3,
        16,
        4,
        {"asyncrl_importance_ratio_mean{}": level(1, 0.52)},
    ),
    # ---- GPUs
    AlertCase(
        alert="AsyncRLGPUFailed",
        bad={f"DCGM_FI_DEV_XID_ERRORS{{{GPU_1}}}": level(0, 79)},
        until=45,
        after=0,
        lingers=15,
        edges=(
            {f"DCGM_FI_DEV_XID_ERRORS{{{GPU_1}}}": level(0, 13)},
            {f"DCGM_FI_DEV_XID_ERRORS{{{GPU_1}}}": level(79, 79)},
        ),
        labels={"gpu": "1"},
        no_run=True,
        of_host=True,
    ),
    AlertCase(  # as dcgm-exporter says it since 3.3: another code is another series
        alert="AsyncRLGPUFailed",
        bad={xid(0, "No Error"): gone(always(0)), xid(79, "GPU has fallen off the bus"): level(absent, 79)},
        base={f"DCGM_FI_DEV_XID_ERRORS{{{GPU_1}}}": absent},
        until=45,
        after=0,
        lingers=15,
        edges=(
            {xid(0, "No Error"): gone(always(0)), xid(13, "Graphics Engine Exception"): level(absent, 13)},
        ),
        labels={"gpu": "1"},
        no_run=True,
        of_host=True,
    ),
    AlertCase(  # the host of the same name in another cluster has trouble of its own, for long
        alert="AsyncRLGPUFailed",
        bad={f"DCGM_FI_DEV_XID_ERRORS{{{GPU_1}}}": level(0, 79)},
        base=elsewhere("DCGM_FI_DEV_XID_ERRORS", 95),
        until=45,
        after=0,
        lingers=15,
        labels={"gpu": "1"},
        no_run=True,
        of_host=True,
    ),
    AlertCase(  # and here has that GPU
        alert="AsyncRLGPUMissing",
        bad={f"DCGM_FI_DEV_GPU_TEMP{{{GPU_1}}}": gone(always(60))},
        base=elsewhere("DCGM_FI_DEV_GPU_TEMP", 60),
        after=10,
        lingers=0,
        until=130,
        labels={"gpu": "1"},
        no_run=True,
        of_host=True,
    ),
    AlertCase(
        alert="AsyncRLGPUMissing",
        bad={f"DCGM_FI_DEV_GPU_TEMP{{{GPU_1}}}": gone(always(60))},
        after=10,
        lingers=0,
        until=130,  # longer than an hour: nobody mended it
        edges=({name: gone(OF_HOST[name]) for name in OF_HOST if name.startswith("DCGM_FI_DEV_GPU_TEMP")},),
        labels={"gpu": "1"},
        no_run=True,
        of_host=True,
    ),
    AlertCase(
        alert="AsyncRLGPUThrottled",
        bad={f"DCGM_FI_DEV_THERMAL_VIOLATION{{{GPU_1}}}": rate(0, 0.08 * 60e9)},
        after=14,
        lingers=20,
        edges=({f"DCGM_FI_DEV_THERMAL_VIOLATION{{{GPU_1}}}": rate(0, 0.049 * 60e9)},),
        labels={"gpu": "1", "job": "dcgm"},
        no_run=True,
        of_host=True,
    ),
    AlertCase(
        alert="AsyncRLGPUMemoryFull",
        bad={
            f"DCGM_FI_DEV_FB_USED{{{GPU_1}}}": level(40_000, 79_000),
            f"DCGM_FI_DEV_FB_FREE{{{GPU_1}}}": level(40_000, 1_000),
        },
        after=10,
        lingers=15,
        edges=(
            {
                f"DCGM_FI_DEV_FB_USED{{{GPU_1}}}": level(40_000, 77_500),
                f"DCGM_FI_DEV_FB_FREE{{{GPU_1}}}": level(40_000, 2_500),
            },
        ),
        labels={"gpu": "1", "job": "dcgm"},
        no_run=True,
        of_host=True,
    ),
)
