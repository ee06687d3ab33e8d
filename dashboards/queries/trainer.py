"""Queries of the board `trainer`: where its time goes, how fast it is, its updates, the way of the weights."""

from typing import Final

from dashboards import dcgm
from dashboards.promql import code, newest, once, quantile, rate, ratio, selector, share, shown, total
from dashboards.query import Query
from exporter import catalog
from exporter.catalog import Family, metric_family

_GPU: Final = "{{Hostname}} {{gpu}}"
_NO_GPU: Final = "dcgm-exporter runs where there are NVIDIA GPUs"
_MIB: Final = 1024 * 1024
_NS: Final = 1_000_000_000
_SYNC_SECONDS: Final = total(rate(shown(catalog.SYNC_PHASE_SECONDS)), "run", "phase")
_SYNCS: Final = rate(shown(metric_family("weight_sync"), suffix="_count"))


def _ranges(**expressions: str) -> tuple[Query, ...]:
    return tuple(Query(id=f"trainer.{what}", expr=expr) for what, expr in expressions.items())


def _gpu(what: str, expr: str) -> Query:
    """Of all GPUs that Prometheus knows: their families have no label `run`."""
    return Query(id=f"trainer.gpu_{what}", expr=expr, legend=_GPU, optional=_NO_GPU)


def _of_gpu(family: Family) -> str:
    return once(selector(family))


QUERIES: Final = (
    *_ranges(
        idle=newest(catalog.TRAINER_IDLE),
        wait=newest(catalog.TRAINER_WAIT),
        active_seconds=newest(catalog.TRAINER_ACTIVE),
        version_seconds=newest(catalog.TRAINER_VERSION),
        step_mean=newest(metric_family("step", "mean")),
        step_max=newest(metric_family("step", "max")),
        step_p50=quantile(0.5, metric_family("step"), "run"),
        step_p95=quantile(0.95, metric_family("step"), "run"),
        steps=rate(shown(catalog.TRAIN_STEPS)),
        tokens_trained=total(rate(shown(catalog.TOKENS, 'kind="trained"')), "run"),
        tokens_in_step=newest(metric_family("tokens_per_second")),
        grad_norm=newest(metric_family("grad_norm")),
        learning_rate=newest(metric_family("learning_rate")),
        memory=newest(metric_family("gpu_memory_allocated_bytes")),
        mfu=newest(metric_family("mfu_ratio")),
        sync_mean=newest(metric_family("weight_sync", "mean")),
        sync_max=newest(metric_family("weight_sync", "max")),
        sync_p95=quantile(0.95, metric_family("weight_sync"), "run"),
    ),
    Query(id="trainer.state", expr=code(catalog.TRAINER_STATE, "state", catalog.TRAINER_STATES)),
    Query(
        id="trainer.time_by_state",
        expr=share(rate(shown(catalog.TRAINER_STATE_SECONDS)), "state", "run"),
        legend="{{state}}",
    ),
    Query(
        id="trainer.sync_by_phase",
        expr=f"{_SYNC_SECONDS} / on (run) group_left () ({_SYNCS} > 0)",
        legend="{{phase}}",
    ),
    _gpu("tensor_active", _of_gpu(dcgm.TENSOR_ACTIVE)),
    _gpu("busy", f"{_of_gpu(dcgm.GPU_UTIL)} / 100"),
    _gpu("memory_used", f"{_of_gpu(dcgm.MEMORY_USED)} * {_MIB}"),
    _gpu(
        "memory_fill",
        ratio(_of_gpu(dcgm.MEMORY_USED), f"{_of_gpu(dcgm.MEMORY_USED)} + {_of_gpu(dcgm.MEMORY_FREE)}"),
    ),
    _gpu("temperature", _of_gpu(dcgm.TEMPERATURE)),
    _gpu("power", _of_gpu(dcgm.POWER)),
    _gpu("xid", _of_gpu(dcgm.XID)),
    _gpu("power_throttled", f"{rate(selector(dcgm.POWER_THROTTLED))} / {_NS}"),
    _gpu("heat_throttled", f"{rate(selector(dcgm.HEAT_THROTTLED))} / {_NS}"),
)
