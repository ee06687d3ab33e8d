"""Queries of the board `staleness`: how old is what is trained on, what became of the samples, is it on policy."""

from typing import Final

from dashboards.promql import newest, once, quantile, rate, ratio, share, shown, total
from dashboards.query import Query
from exporter import catalog
from exporter.catalog import metric_family

_OUTCOMES: Final = rate(shown(catalog.SAMPLES))
_THROWN_AWAY: Final = rate(shown(catalog.SAMPLES, 'outcome=~"dropped_.+|failed"'))
_QUEUED: Final = once(shown(catalog.SAMPLES_QUEUED))
_IN_FLIGHT: Final = once(shown(catalog.SAMPLES_IN_FLIGHT))
_CAPACITY: Final = once(shown(catalog.QUEUE_CAPACITY))


def _line(what: str, expr: str, words: str = "") -> Query:
    """One series for each run; `words` say what it is of the run."""
    return Query(id=f"staleness.{what}", expr=expr, legend=f"{{{{run}}}} {words}".strip())


def _statistics(metric: str, *statistics: str) -> tuple[Query, ...]:
    """The latest gauges of a distribution."""
    return tuple(_line(f"{metric}_{each}", newest(metric_family(metric, each)), each) for each in statistics)


def _p95(metric: str) -> Query:
    return _line(f"{metric}_p95", quantile(0.95, metric_family(metric), "run"), "p95")


def _spread(metric: str) -> Query:
    """How much falls into each bucket of a histogram, or below it, per second."""
    buckets = rate(shown(metric_family(metric), suffix="_bucket"))
    return Query(id=f"staleness.{metric}_spread", expr=total(buckets, "le"), format="heatmap")


QUERIES: Final = (
    # How old.
    *_statistics("staleness", "mean", "max"),
    *_statistics("update_lag", "mean", "max"),
    *_statistics("response_span", "mean", "max"),
    *_statistics("queue_wait", "mean", "max"),
    _p95("staleness"),
    _p95("queue_wait"),
    _spread("staleness"),
    _spread("update_lag"),
    _spread("response_span"),
    _line("limit", once(shown(catalog.STALENESS_LIMIT)), "limit"),
    # What waits.
    _line("queued", _QUEUED, "queued"),
    _line("in_flight", _IN_FLIGHT, "in flight"),
    _line("queue_capacity", _CAPACITY, "capacity"),
    _line("queue_fill", ratio(f"({_QUEUED} + {_IN_FLIGHT})", _CAPACITY)),
    _line("oldest_age", once(shown(catalog.QUEUE_OLDEST_AGE)), "oldest"),
    _line("budget_used", once(shown(catalog.BUDGET_USED)), "used"),
    _line("budget_limit", once(shown(catalog.BUDGET_LIMIT)), "limit"),
    # What became of the samples.
    _line("fed", total(rate(shown(catalog.SAMPLES_FED)), "run"), "fed"),
    _line("generated", total(rate(shown(catalog.SAMPLES_GENERATED)), "run"), "generated"),
    _line("trained", total(rate(shown(catalog.SAMPLES, 'outcome="trained"')), "run"), "trained"),
    Query(
        id="staleness.outcome_share", expr=f"{share(_OUTCOMES, 'outcome', 'run')} > 0", legend="{{outcome}}"
    ),
    Query(
        id="staleness.thrown_away", expr=total(_THROWN_AWAY, "run", "outcome"), legend="{{run}} {{outcome}}"
    ),
    _line("thrown_away_share", ratio(total(_THROWN_AWAY, "run"), total(_OUTCOMES, "run"))),
    _line("reissued", total(rate(shown(catalog.SAMPLES_REISSUED)), "run"), "issued again"),
    _line("duplicates", total(rate(shown(catalog.DUPLICATE_RESULTS)), "run"), "duplicate results"),
    # Is it still on policy.
    *_statistics("importance_ratio", "mean", "min", "max", "std"),
    _spread("importance_ratio"),
    _line("clip_ratio", newest(metric_family("clip_ratio"))),
    _line("kl_behaviour", newest(metric_family("kl_behaviour"))),
    _line("effective_sample_size", newest(metric_family("effective_sample_size_ratio"))),
)
