"""Queries of the board `staleness`: how old is what is trained on, what became of the samples, is it on policy."""

from typing import Final

from dashboards.promql import newest, once, quantile, rate, ratio, share, shown, total
from dashboards.query import Query
from exporter import catalog
from exporter.catalog import metric_family

_OUTCOMES: Final = rate(shown(catalog.SAMPLES))
_NOT_TRAINED: Final = rate(shown(catalog.SAMPLES, 'outcome=~"dropped_.*|failed"'))
_QUEUED: Final = once(shown(catalog.SAMPLES_QUEUED))
_IN_FLIGHT: Final = once(shown(catalog.SAMPLES_IN_FLIGHT))
_RATIOS: Final = shown(metric_family("importance_ratio"), suffix="_bucket")


def _ranges(**expressions: str) -> tuple[Query, ...]:
    return tuple(Query(id=f"staleness.{what}", expr=expr) for what, expr in expressions.items())


def _statistics(metric: str, *statistics: str) -> tuple[Query, ...]:
    """The latest gauges of a distribution."""
    return _ranges(
        **{f"{metric}_{statistic}": newest(metric_family(metric, statistic)) for statistic in statistics}
    )


def _buckets(metric: str) -> Query:
    """Of each bucket of a histogram, what falls into it or below per second."""
    buckets = rate(shown(metric_family(metric), suffix="_bucket"))
    return Query(
        id=f"staleness.{metric}_spread", expr=total(buckets, "le"), legend="{{le}}", format="heatmap"
    )


QUERIES: Final = (
    *_statistics("staleness", "mean", "max", "std"),
    *_statistics("update_lag", "mean", "max"),
    *_statistics("response_span", "mean", "max"),
    *_statistics("queue_wait", "mean", "max"),
    *_statistics("importance_ratio", "mean", "min", "max", "std"),
    _buckets("staleness"),
    _buckets("importance_ratio"),
    *_ranges(
        limit=once(shown(catalog.STALENESS_LIMIT)),
        queue_wait_p95=quantile(0.95, metric_family("queue_wait"), "run"),
        queued=_QUEUED,
        in_flight=_IN_FLIGHT,
        queue_capacity=once(shown(catalog.QUEUE_CAPACITY)),
        queue_fill=ratio(f"({_QUEUED} + {_IN_FLIGHT})", once(shown(catalog.QUEUE_CAPACITY))),
        oldest_age=once(shown(catalog.QUEUE_OLDEST_AGE)),
        budget_used=once(shown(catalog.BUDGET_USED)),
        budget_limit=once(shown(catalog.BUDGET_LIMIT)),
        fed=rate(shown(catalog.SAMPLES_FED)),
        generated=rate(shown(catalog.SAMPLES_GENERATED)),
        trained=rate(shown(catalog.SAMPLES, 'outcome="trained"')),
        lost_share=ratio(total(_NOT_TRAINED, "run"), total(_OUTCOMES, "run")),
        reissued=rate(shown(catalog.SAMPLES_REISSUED)),
        duplicates=rate(shown(catalog.DUPLICATE_RESULTS)),
        clip_ratio=newest(metric_family("clip_ratio")),
        kl_behaviour=newest(metric_family("kl_behaviour")),
        effective_sample_size=newest(metric_family("effective_sample_size_ratio")),
    ),
    Query(id="staleness.not_trained", expr=_NOT_TRAINED, legend="{{run}} {{outcome}}"),
    Query(id="staleness.outcome_share", expr=share(_OUTCOMES, "outcome", "run"), legend="{{outcome}}"),
)
