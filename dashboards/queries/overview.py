"""Queries of the board `overview`: is it learning, who waits for whom, what is broken."""

from typing import Final

from dashboards.promql import by, code, increase, newest, once, rate, reported, share, shown, total
from dashboards.queries.events import FIRING, MILLISECONDS, OURS, WATCHDOG
from dashboards.query import Query
from dashboards.states import RUN_STATUS
from exporter import catalog
from exporter.catalog import Family, metric_family

_STATUS: Final = code(catalog.RUN_STATUS, RUN_STATUS.label, RUN_STATUS.values)
_RUNNING: Final = once(shown(catalog.RUN_STATUS, 'status="running"'), "status") + " == 1"
_START: Final = once(shown(catalog.ATTEMPT_START))
_LAST: Final = once(shown(catalog.LAST_VERSION))
_WAITED: Final = f"time() - ({_LAST} > {_START} or {_START})"
_REWARD: Final = newest(metric_family("reward", "mean"))
_EXACT: Final = newest(metric_family("exact_match_ratio"))
_STALENESS: Final = newest(metric_family("staleness", "max"))
_TRAINER_IDLE: Final = newest(catalog.TRAINER_IDLE)
_USED: Final = f"{once(shown(catalog.ROLLOUTERS_UTILIZATION))} or {reported(catalog.ROLLOUTERS_UTILIZATION)}"
_IDLE: Final = (
    f"{once(shown(catalog.ROLLOUTERS_IDLE))} or {reported(catalog.ROLLOUTERS_IDLE, catalog.ROLLOUTER_IDLE)}"
)
_UNUSED: Final = f"1 - ({_USED}) or {_IDLE}"
_UNTROUBLED: Final = "nothing of the kind has happened"


def _spent(family: Family) -> str:
    """The share of time in each state that there was any in."""
    return f"{share(rate(shown(family)), 'state', 'run')} > 0"


def _statistics(name: str, *statistics: str) -> list[Query]:
    """A distribution of the newest version."""
    return [
        Query(
            id=f"overview.{name}_{each}",
            expr=newest(metric_family(name, each)),
            legend=f"{{{{run}}}} {each}",
        )
        for each in statistics
    ]


def _distribution(name: str) -> Query:
    """What comes per second, by bucket."""
    buckets = rate(shown(metric_family(name), suffix="_bucket"))
    return Query(id=f"overview.{name}_buckets", expr=total(buckets, "le"), legend="", format="heatmap")


def _trouble(what: str, family: Family, *matchers: str) -> Query:
    """Events of one kind, where there are any."""
    counted = total(increase(shown(family, *matchers)), "run")
    return Query(
        id=f"overview.{what}",
        expr=f"{counted} > 0",
        legend=f"{{{{run}}}} {what.replace('_', ' ')}",
        optional=_UNTROUBLED,
    )


def _column(what: str, expr: str, *labels: str) -> Query:
    """A column of the table of runs."""
    return Query(
        id=f"overview.runs_{what}", expr=by(expr, "run", *labels), legend="", kind="instant", format="table"
    )


# What ended keeps its last values within the time range; only how long one waits and what fires are of this moment.
_NOW: Final = (
    Query(id="overview.status", expr=_STATUS),
    Query(id="overview.version", expr=once(shown(catalog.PARAM_VERSION))),
    Query(
        id="overview.waited",
        expr=f"{_WAITED} and on (run) ({_RUNNING})",
        kind="instant",
        optional="a run that has ended waits for no version",
    ),
    Query(id="overview.reward", expr=_REWARD),
    Query(id="overview.trainer_idle", expr=_TRAINER_IDLE),
    Query(id="overview.rollouters_unused", expr=_UNUSED),
    Query(id="overview.staleness", expr=_STALENESS),
    Query(
        id="overview.alerts",
        expr=f"count({FIRING}) or 0 * count(ALERTS{{{WATCHDOG}}})",
        legend="",
        kind="instant",
        optional="without the rules there are no alerts",
    ),
)
_WAITING: Final = (
    Query(id="overview.trainer_side", expr=_TRAINER_IDLE, legend="{{run}} trainer"),
    Query(id="overview.rollouter_side", expr=_UNUSED, legend="{{run}} rollouters"),
    Query(
        id="overview.trainer_time",
        expr=_spent(catalog.TRAINER_STATE_SECONDS),
        legend="{{run}} {{state}}",
    ),
    Query(
        id="overview.rollouter_time",
        expr=_spent(catalog.ROLLOUTER_STATE_SECONDS),
        legend="{{run}} {{state}}",
    ),
)
_LEARNING: Final = (
    Query(id="overview.exact_match", expr=_EXACT),
    Query(id="overview.entropy", expr=newest(metric_family("entropy"))),
    Query(id="overview.kl_behaviour", expr=newest(metric_family("kl_behaviour"))),
)
_MORE_LEARNING: Final = (
    Query(id="overview.policy_loss", expr=newest(metric_family("policy_loss"))),
    Query(id="overview.kl_reference", expr=newest(metric_family("kl_reference"))),
    *_statistics("response_length", "mean", "max"),
    *_statistics("reward", "mean", "min", "max", "std"),
    *_statistics("advantage", "mean", "min", "max", "std"),
    *(_distribution(name) for name in ("reward", "response_length", "advantage")),
)
_SPEED: Final = (
    Query(
        id="overview.samples_trained",
        expr=total(rate(shown(catalog.SAMPLES, 'outcome="trained"')), "run"),
        legend="{{run}} trained",
    ),
    Query(
        id="overview.samples_generated",
        expr=total(rate(shown(catalog.SAMPLES_GENERATED)), "run"),
        legend="{{run}} generated",
    ),
    Query(
        id="overview.tokens",
        expr=total(rate(shown(catalog.TOKENS)), "run", "kind"),
        legend="{{run}} {{kind}}",
    ),
    Query(id="overview.version_seconds", expr=newest(catalog.TRAINER_VERSION)),
    Query(
        id="overview.staleness_mean",
        expr=newest(metric_family("staleness", "mean")),
        legend="{{run}} mean",
    ),
    Query(id="overview.staleness_max", expr=_STALENESS, legend="{{run}} max"),
    Query(
        id="overview.staleness_limit",
        expr=once(shown(catalog.STALENESS_LIMIT)),
        legend="{{run}} limit",
        optional="a run may have no hard bound",
    ),
)
_BROKEN: Final = (
    _trouble("incomplete", catalog.VERSIONS_INCOMPLETE, 'reason!="run_end"'),
    _trouble("evicted", catalog.VERSIONS_EVICTED),
    _trouble("lost", catalog.LOST_RECORDS),
    _trouble("late", catalog.LATE_RECORDS),
    _trouble("rejected", catalog.REJECTED_RECORDS),
    _trouble("nonfinite", catalog.NONFINITE_VALUES),
    _trouble("out_of_range", catalog.OUT_OF_RANGE),
    _trouble("unknown_spans", catalog.UNKNOWN_SPANS),
    _trouble("inferred_attempts", catalog.ATTEMPTS_INFERRED),
    _trouble("failed_samples", catalog.SAMPLES, 'outcome=~"failed|dropped_.+"'),
    Query(
        id="overview.firing",
        expr=by(
            f"ALERTS_FOR_STATE{{{OURS}}} * {MILLISECONDS} and ignoring (alertstate) ({FIRING})",
            "alertname",
            "severity",
            "run",
            "rollouter",
            "instance",
            "job",
        ),
        legend="",
        kind="instant",
        format="table",
        optional="nothing fires while all is well",
    ),
)
_EVENTS: Final = tuple(
    Query(
        id=f"overview.last_{what}",
        expr=by(f"{once(shown(family))} * {MILLISECONDS}", "run"),
        legend="",
        kind="instant",
        format="table",
        optional=optional,
    )
    for what, family, optional in (
        ("train_step", catalog.LAST_TRAIN_STEP, ""),
        ("incomplete", catalog.LAST_INCOMPLETE, _UNTROUBLED),
        ("evicted", catalog.LAST_EVICTED, _UNTROUBLED),
        ("lost", catalog.LAST_LOST, _UNTROUBLED),
        ("rejected", catalog.LAST_REJECTED, _UNTROUBLED),
        ("nonfinite", catalog.LAST_NONFINITE, _UNTROUBLED),
        ("out_of_range", catalog.LAST_OUT_OF_RANGE, _UNTROUBLED),
        ("version_backward", catalog.LAST_BACKWARD, _UNTROUBLED),
    )
)
_RUNS: Final = (
    _column("info", once(shown(catalog.RUN_INFO)), "algorithm", "model"),
    _column("status", _STATUS),
    _column("attempt", once(shown(catalog.RUN_ATTEMPT))),
    _column("start", f"{_START} * {MILLISECONDS}"),
    _column("version", once(shown(catalog.PARAM_VERSION))),
    _column("last_version", f"{_LAST} * {MILLISECONDS}"),
    _column("steps_per_version", once(shown(catalog.STEPS_PER_VERSION))),
    _column("reward", _REWARD),
    _column("exact_match", _EXACT),
    _column("staleness", _STALENESS),
    _column("trainer_idle", _TRAINER_IDLE),
    _column("rollouters_unused", _UNUSED),
)

QUERIES: tuple[Query, ...] = (
    *_NOW,
    *_WAITING,
    *_LEARNING,
    *_MORE_LEARNING,
    *_SPEED,
    *_BROKEN,
    *_EVENTS,
    *_RUNS,
)
