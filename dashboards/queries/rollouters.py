"""Queries of the board `rollouters`: what they do, who waits for what, who is unlike the others.

With more than 64 rollouters the exporter publishes only the smallest, the merged and the largest idle ratio and
utilization of a run: what has a series for each rollouter here stands beside something that has one for each run.
"""

from typing import Final

from dashboards.promql import code, newest, once, quantile, rate, share, shown, total
from dashboards.query import Query
from exporter import catalog
from exporter.catalog import metric_family

OUTLIERS: Final = 8
"""Lines of a panel that has one for each rollouter: as many as can still be told apart."""

_EACH: Final = "{{run}} {{rollouter}}"
_PUBLISHED: Final = once(shown(catalog.PARAM_VERSION))
_SERVED: Final = once(shown(catalog.ROLLOUTER_PARAM_VERSION))
_BEHIND: Final = f"{_PUBLISHED} - on (run) group_right () {_SERVED}"
_STATE: Final = code(catalog.ROLLOUTER_STATE, "state", catalog.ROLLOUTER_STATES)
_DECODING: Final = once(shown(catalog.ROLLOUTER_DECODING))
_CAPACITY: Final = once(shown(catalog.ROLLOUTER_CAPACITY))


def _ranges(**expressions: str) -> tuple[Query, ...]:
    return tuple(Query(id=f"rollouters.{what}", expr=expr) for what, expr in expressions.items())


def _tables(**expressions: str) -> tuple[Query, ...]:
    return tuple(
        Query(id=f"rollouters.{what}", expr=expr, kind="instant", format="table")
        for what, expr in expressions.items()
    )


QUERIES: Final = (
    *_ranges(
        serving=f"count by (run) ({_SERVED})",
        behind_most=f"max by (run) ({_BEHIND})",
        behind_least=f"min by (run) ({_BEHIND})",
        idle=newest(catalog.ROLLOUTERS_IDLE),
        idle_min=newest(catalog.ROLLOUTERS_IDLE_MIN),
        idle_max=newest(catalog.ROLLOUTERS_IDLE_MAX),
        utilization=newest(catalog.ROLLOUTERS_UTILIZATION),
        utilization_min=newest(catalog.ROLLOUTERS_UTILIZATION_MIN),
        utilization_max=newest(catalog.ROLLOUTERS_UTILIZATION_MAX),
        decoding=total(_DECODING, "run"),
        capacity=total(_CAPACITY, "run"),
        generation_mean=newest(metric_family("generation", "mean")),
        generation_max=newest(metric_family("generation", "max")),
        generation_p50=quantile(0.5, metric_family("generation"), "run"),
        generation_p95=quantile(0.95, metric_family("generation"), "run"),
        tokens_generated=total(rate(shown(catalog.TOKENS, 'kind="generated"')), "run"),
        tokens_trained=total(rate(shown(catalog.TOKENS, 'kind="trained"')), "run"),
        tokens_of_version=newest(metric_family("generated_tokens_per_second")),
    ),
    Query(id="rollouters.state", expr=_STATE, legend=_EACH),
    Query(
        id="rollouters.by_state",
        expr=total(once(shown(catalog.ROLLOUTER_STATE)), "run", "state"),
        legend="{{state}}",
    ),
    Query(
        id="rollouters.time_by_state",
        expr=share(rate(shown(catalog.ROLLOUTER_STATE_SECONDS)), "state", "run"),
        legend="{{state}}",
    ),
    Query(
        id="rollouters.generation_spread",
        expr=total(rate(shown(metric_family("generation"), suffix="_bucket")), "le"),
        legend="{{le}}",
        format="heatmap",
    ),
    Query(
        id="rollouters.least_used",
        expr=f"bottomk by (run) ({OUTLIERS}, {newest(catalog.ROLLOUTER_UTILIZATION)})",
        legend=_EACH,
    ),
    Query(
        id="rollouters.most_idle",
        expr=f"topk by (run) ({OUTLIERS}, {newest(catalog.ROLLOUTER_IDLE)})",
        legend=_EACH,
    ),
    Query(id="rollouters.behind", expr=f"topk by (run) ({OUTLIERS}, {_BEHIND})", legend=_EACH),
    *_tables(
        each_state=_STATE,
        each_utilization=newest(catalog.ROLLOUTER_UTILIZATION),
        each_idle=newest(catalog.ROLLOUTER_IDLE),
        each_active=newest(catalog.ROLLOUTER_ACTIVE),
        each_version=newest(catalog.ROLLOUTER_VERSION),
        each_behind=_BEHIND,
        each_decoding=_DECODING,
        each_capacity=_CAPACITY,
        run_serving=f"count by (run) ({_SERVED})",
        run_behind=f"max by (run) ({_BEHIND})",
        run_idle_min=newest(catalog.ROLLOUTERS_IDLE_MIN),
        run_idle=newest(catalog.ROLLOUTERS_IDLE),
        run_idle_max=newest(catalog.ROLLOUTERS_IDLE_MAX),
        run_utilization_min=newest(catalog.ROLLOUTERS_UTILIZATION_MIN),
        run_utilization=newest(catalog.ROLLOUTERS_UTILIZATION),
        run_utilization_max=newest(catalog.ROLLOUTERS_UTILIZATION_MAX),
    ),
)
