"""Queries of the board `rollouters`: what they do, who waits for what, who is unlike the others.

With more than 64 rollouters the exporter publishes only the smallest, the merged and the largest idle ratio and
utilization of a run: what has a series for each rollouter here stands beside something that has one for each run.
"""

from typing import Final

from dashboards.promql import average, by, code, newest, once, quantile, rate, share, shown, total
from dashboards.query import Query
from exporter import catalog
from exporter.catalog import metric_family

OUTLIERS: Final = 8
"""Lines of a panel that has one for each rollouter: as many as can still be told apart."""

_PUBLISHED: Final = once(shown(catalog.PARAM_VERSION))
_SERVED: Final = once(shown(catalog.ROLLOUTER_PARAM_VERSION))
_BEHIND: Final = f"{_PUBLISHED} - ignoring (rollouter) group_right () {_SERVED}"
_STATE: Final = code(catalog.ROLLOUTER_STATE, "state", catalog.ROLLOUTER_STATES)
_DECODING: Final = once(shown(catalog.ROLLOUTER_DECODING))
_CAPACITY: Final = once(shown(catalog.ROLLOUTER_CAPACITY))


def _line(what: str, expr: str, words: str = "") -> Query:
    """One series for each run; `words` say what it is of the run."""
    return Query(id=f"rollouters.{what}", expr=expr, legend=f"{{{{run}}}} {words}".strip())


def _each(what: str, expr: str) -> Query:
    return Query(id=f"rollouters.{what}", expr=expr, legend="{{run}} {{rollouter}}")


def _column(what: str, expr: str) -> Query:
    """Of a table with a row for each run or, where the name begins with `each`, for each rollouter."""
    labels = ("run", "rollouter") if what.startswith("each") else ("run",)
    return Query(id=f"rollouters.{what}", expr=by(expr, *labels), kind="instant", format="table")


def _unused(utilization: str) -> str:
    return f"1 - {utilization}"


QUERIES: Final = (
    # Now.
    _line("serving", f"count by (run) ({_SERVED})"),
    _line("behind_most", f"max by (run) ({_BEHIND})", "most"),
    # What they do, and why they do not.
    _each("state", _STATE),
    Query(
        id="rollouters.by_state",
        expr=f"{total(average(shown(catalog.ROLLOUTER_STATE)), 'state')} > 0",
        legend="{{state}}",
    ),
    Query(
        id="rollouters.time_by_state",
        expr=f"{share(rate(shown(catalog.ROLLOUTER_STATE_SECONDS)), 'state', 'run')} > 0",
        legend="{{state}}",
    ),
    _line("idle", newest(catalog.ROLLOUTERS_IDLE), "all"),
    _line("idle_min", newest(catalog.ROLLOUTERS_IDLE_MIN), "least"),
    _line("idle_max", newest(catalog.ROLLOUTERS_IDLE_MAX), "most"),
    _line("utilization", newest(catalog.ROLLOUTERS_UTILIZATION)),
    _line("unused", _unused(newest(catalog.ROLLOUTERS_UTILIZATION)), "all"),
    _line("unused_min", _unused(newest(catalog.ROLLOUTERS_UTILIZATION_MAX)), "least"),
    _line("unused_max", _unused(newest(catalog.ROLLOUTERS_UTILIZATION_MIN)), "most"),
    _line("decoding", total(_DECODING, "run"), "decoding"),
    _line("capacity", total(_CAPACITY, "run"), "capacity"),
    # Who is unlike the others.
    _each("most_unused", f"topk by (run) ({OUTLIERS}, {_unused(newest(catalog.ROLLOUTER_UTILIZATION))})"),
    _each("most_idle", f"topk by (run) ({OUTLIERS}, {newest(catalog.ROLLOUTER_IDLE)})"),
    _line("published", _PUBLISHED, "published"),
    _line("served_newest", f"max by (run) ({_SERVED})", "served, newest"),
    _line("served_oldest", f"min by (run) ({_SERVED})", "served, oldest"),
    _each("most_behind", f"topk by (run) ({OUTLIERS}, {_BEHIND})"),
    _column("each_state", _STATE),
    _column("each_served", _SERVED),
    _column("each_behind", _BEHIND),
    _column("each_decoding", _DECODING),
    _column("each_capacity", _CAPACITY),
    _column("each_utilization", newest(catalog.ROLLOUTER_UTILIZATION)),
    _column("each_idle", newest(catalog.ROLLOUTER_IDLE)),
    _column("each_active", newest(catalog.ROLLOUTER_ACTIVE)),
    _column("each_version", newest(catalog.ROLLOUTER_VERSION)),
    _column("run_serving", f"count by (run) ({_SERVED})"),
    _column("run_behind", f"max by (run) ({_BEHIND})"),
    _column("run_idle_min", newest(catalog.ROLLOUTERS_IDLE_MIN)),
    _column("run_idle", newest(catalog.ROLLOUTERS_IDLE)),
    _column("run_idle_max", newest(catalog.ROLLOUTERS_IDLE_MAX)),
    _column("run_utilization_min", newest(catalog.ROLLOUTERS_UTILIZATION_MIN)),
    _column("run_utilization", newest(catalog.ROLLOUTERS_UTILIZATION)),
    _column("run_utilization_max", newest(catalog.ROLLOUTERS_UTILIZATION_MAX)),
    # How fast they are.
    _line("generation_mean", newest(metric_family("generation", "mean")), "mean"),
    _line("generation_max", newest(metric_family("generation", "max")), "max"),
    _line("generation_p50", quantile(0.5, metric_family("generation"), "run"), "p50"),
    _line("generation_p95", quantile(0.95, metric_family("generation"), "run"), "p95"),
    Query(
        id="rollouters.generation_spread",
        expr=total(rate(shown(metric_family("generation"), suffix="_bucket")), "le"),
        format="heatmap",
    ),
    _line("tokens_generated", total(rate(shown(catalog.TOKENS, 'kind="generated"')), "run"), "generated"),
    _line("tokens_trained", total(rate(shown(catalog.TOKENS, 'kind="trained"')), "run"), "trained"),
    _line("tokens_of_version", newest(metric_family("generated_tokens_per_second")), "of the version"),
)
