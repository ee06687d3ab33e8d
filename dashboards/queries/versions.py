"""Queries of the board `versions`: every version of the time range as one row, with run, attempt and version."""

from typing import Final

from dashboards.promql import by, once, over_range, reported_selector, shown, total
from dashboards.queries.events import MILLISECONDS
from dashboards.query import Query
from exporter import catalog
from exporter.catalog import VERSION_ONLY, Family, metric_family

ROW: Final = ("run", "attempt", "param_version")

_NO_ANNEX: Final = "a run may validate nothing, and report no generated cohort"


def _rows(what: str, expr: str, optional: str = "") -> Query:
    return Query(
        id=f"versions.{what}", expr=expr, legend="", kind="instant", format="table", optional=optional
    )


def _by_version(what: str, family: Family, *labels: str) -> Query:
    """A gauge by version; of a foreign trainer, what it reported, which is never per rollouter."""
    versioned = catalog.version_family(family)
    exact = by(over_range(shown(versioned)), *ROW, *labels)
    return _rows(what, f"{exact} or {by(over_range(reported_selector(versioned)), *ROW)}")


def _metric(name: str, *statistics: str) -> tuple[Query, ...]:
    """A metric of the trained cohort, by the statistics of its distribution."""
    if not statistics:
        return (_by_version(name, metric_family(name)),)
    return tuple(_by_version(f"{name}_{each}", metric_family(name, each)) for each in statistics)


def _annex(kind: str, name: str, statistic: str = "") -> Query:
    """A metric of the validation, or of the generated cohort, of each version."""
    family = catalog.annex_family(kind, metric_family(name, statistic))
    return _rows(f"{kind}_{name}", by(over_range(shown(family)), *ROW), optional=_NO_ANNEX)


def _only(what: str, family: Family, factor: int = 1, optional: str = "") -> Query:
    """A family that only the version window has."""
    times = f" * {factor}" if factor != 1 else ""
    return _rows(what, by(over_range(shown(family)), *ROW) + times, optional=optional)


_UTILIZATION: Final = _by_version("rollouters_utilization", catalog.ROLLOUTERS_UTILIZATION)
_IDLE: Final = _by_version("rollouters_idle", catalog.ROLLOUTERS_IDLE)

_LEARNING: Final = (
    *_metric("reward", "mean"),
    _annex("generated", "reward", "mean"),
    _annex("validation", "reward", "mean"),
    *_metric("exact_match_ratio"),
    _annex("generated", "exact_match_ratio"),
    _annex("validation", "exact_match_ratio"),
    *_metric("policy_loss"),
    *_metric("entropy"),
    *_metric("kl_reference"),
    *_metric("kl_behaviour"),
    *_metric("response_length", "mean"),
    _annex("generated", "response_length", "mean"),
    _annex("validation", "response_length", "mean"),
    *_metric("grad_norm"),
    *_metric("learning_rate"),
)
_OFF_POLICY: Final = (
    *_metric("staleness", "mean", "max"),
    *_metric("update_lag", "mean", "max"),
    *_metric("response_span", "mean", "max"),
    *_metric("importance_ratio", "mean", "max"),
    *_metric("clip_ratio"),
    *_metric("effective_sample_size_ratio"),
)
_TIME: Final = (
    _by_version("trainer_idle", catalog.TRAINER_IDLE),
    _by_version("trainer_wait", catalog.TRAINER_WAIT),
    _UTILIZATION,
    _IDLE,
    _rows("rollouters_unused", f"1 - ({_UTILIZATION.expr}) or {_IDLE.expr}"),
    _by_version("trainer_seconds", catalog.TRAINER_VERSION),
    _by_version("trainer_active", catalog.TRAINER_ACTIVE),
    *_metric("step", "mean", "max"),
    *_metric("weight_sync", "mean"),
    *_metric("generation", "mean", "max"),
    *_metric("queue_wait", "mean", "max"),
    *_metric("tokens_per_second"),
    *_metric("generated_tokens_per_second"),
    *_metric("mfu_ratio"),
    *_metric("gpu_memory_allocated_bytes"),
)
_ROLLOUTERS: Final = (
    _by_version("rollouter_idle", catalog.ROLLOUTER_IDLE, "rollouter"),
    _by_version("rollouter_utilization", catalog.ROLLOUTER_UTILIZATION, "rollouter"),
    _by_version("rollouter_seconds", catalog.ROLLOUTER_VERSION, "rollouter"),
    _by_version("rollouter_active", catalog.ROLLOUTER_ACTIVE, "rollouter"),
    _by_version("rollouters_idle_min", catalog.ROLLOUTERS_IDLE_MIN),
    _by_version("rollouters_idle_max", catalog.ROLLOUTERS_IDLE_MAX),
    _by_version("rollouters_utilization_min", catalog.ROLLOUTERS_UTILIZATION_MIN),
    _by_version("rollouters_utilization_max", catalog.ROLLOUTERS_UTILIZATION_MAX),
)
_TABLE: Final = (
    _only("published", VERSION_ONLY[catalog.VERSION_PUBLISHED], MILLISECONDS),
    _only("complete", VERSION_ONLY[catalog.VERSION_COMPLETE]),
    _only("train_steps", VERSION_ONLY[catalog.VERSION_TRAIN_STEPS]),
    _only("samples", VERSION_ONLY[catalog.VERSION_SAMPLES]),
    _only("generated_samples", catalog.ANNEX_SAMPLES["generated"], optional=_NO_ANNEX),
    _only("validation_samples", catalog.ANNEX_SAMPLES["validation"], optional=_NO_ANNEX),
    _only("checkpoint_bytes", catalog.CHECKPOINT_BYTES, optional="a run may write no checkpoints"),
)
_COMPLETENESS: Final = (
    Query(id="versions.version", expr=once(shown(catalog.PARAM_VERSION))),
    Query(
        id="versions.sealed",
        expr=total(once(shown(catalog.VERSIONS_SEALED, 'complete="true"')), "run"),
    ),
    Query(
        id="versions.incomplete",
        expr=total(once(shown(catalog.VERSIONS_SEALED, 'complete="false"')), "run"),
    ),
    Query(id="versions.stride", expr=once(shown(catalog.WINDOW_STRIDE))),
)

QUERIES: tuple[Query, ...] = (
    *_LEARNING,
    *_OFF_POLICY,
    *_TIME,
    *_ROLLOUTERS,
    *_TABLE,
    *_COMPLETENESS,
)
