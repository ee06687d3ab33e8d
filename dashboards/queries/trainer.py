"""Queries of the board `trainer`: where its time goes, how fast it is, its updates, the way of the weights."""

from typing import Final

from dashboards import dcgm
from dashboards.promql import by, code, newest, quantile, rate, ratio, selector, share, shown, total
from dashboards.query import Query
from exporter import catalog
from exporter.catalog import Family, metric_family

_GPU: Final = "{{Hostname}} {{gpu}}"
_NO_GPU: Final = "dcgm-exporter runs where there are NVIDIA GPUs"
_MIB: Final = 1024 * 1024
_NS: Final = 1_000_000_000
_SYNC_SECONDS: Final = total(rate(shown(catalog.SYNC_PHASE_SECONDS)), "run", "phase")
_SYNCS: Final = total(rate(shown(metric_family("weight_sync"), suffix="_count")), "run")


def _line(what: str, expr: str, words: str = "") -> Query:
    """One series for each run; `words` say what it is of the run."""
    return Query(id=f"trainer.{what}", expr=expr, legend=f"{{{{run}}}} {words}".strip())


def _gpu(what: str, expr: str) -> Query:
    """Of all GPUs that Prometheus knows: their families have no label `run`."""
    return Query(id=f"trainer.gpu_{what}", expr=expr, legend=_GPU, optional=_NO_GPU)


def _of_gpu(series: str) -> str:
    """One line per GPU, whatever container holds it and whatever its last error was."""
    return by(series, dcgm.HOST_LABEL, "gpu")


def _gauge_of_gpu(family: Family) -> str:
    return _of_gpu(selector(family))


def _throttled(family: Family) -> str:
    return f"{_of_gpu(rate(selector(family)))} / {_NS}"


QUERIES: Final = (
    # Its time.
    _line("idle", newest(catalog.TRAINER_IDLE), "idle"),
    _line("wait", newest(catalog.TRAINER_WAIT), "waits for samples"),
    _line("active_seconds", newest(catalog.TRAINER_ACTIVE), "assembling and training"),
    _line("version_seconds", newest(catalog.TRAINER_VERSION), "whole version"),
    # Its speed.
    _line("step_mean", newest(metric_family("step", "mean")), "mean"),
    _line("step_max", newest(metric_family("step", "max")), "max"),
    _line("step_p50", quantile(0.5, metric_family("step"), "run"), "p50"),
    _line("step_p95", quantile(0.95, metric_family("step"), "run"), "p95"),
    _line("steps", total(rate(shown(catalog.TRAIN_STEPS)), "run")),
    _line("tokens_trained", total(rate(shown(catalog.TOKENS, 'kind="trained"')), "run"), "all the time"),
    _line("tokens_in_step", newest(metric_family("tokens_per_second")), "while it trains"),
    _line("mfu", newest(metric_family("mfu_ratio"))),
    _line("memory", newest(metric_family("gpu_memory_allocated_bytes"))),
    # Its updates.
    _line("grad_norm", newest(metric_family("grad_norm"))),
    _line("learning_rate", newest(metric_family("learning_rate"))),
    # The way of the weights.
    _line("sync_mean", newest(metric_family("weight_sync", "mean")), "mean"),
    _line("sync_max", newest(metric_family("weight_sync", "max")), "max"),
    _line("sync_p95", quantile(0.95, metric_family("weight_sync"), "run"), "p95"),
    Query(id="trainer.state", expr=code(catalog.TRAINER_STATE, "state", catalog.TRAINER_STATES)),
    Query(
        id="trainer.time_by_state",
        expr=f"{share(rate(shown(catalog.TRAINER_STATE_SECONDS)), 'state', 'run')} > 0",
        legend="{{state}}",
    ),
    Query(
        id="trainer.sync_by_phase",
        expr=f"{_SYNC_SECONDS} / on (run) group_left () ({_SYNCS} > 0)",
        legend="{{phase}}",
    ),
    _gpu("tensor_active", _gauge_of_gpu(dcgm.TENSOR_ACTIVE)),
    _gpu("busy", f"{_gauge_of_gpu(dcgm.GPU_UTIL)} / 100"),
    _gpu("memory_used", f"{_gauge_of_gpu(dcgm.MEMORY_USED)} * {_MIB}"),
    _gpu(
        "memory_fill",
        ratio(
            _gauge_of_gpu(dcgm.MEMORY_USED),
            f"{_gauge_of_gpu(dcgm.MEMORY_USED)} + {_gauge_of_gpu(dcgm.MEMORY_FREE)}",
        ),
    ),
    _gpu("temperature", _gauge_of_gpu(dcgm.TEMPERATURE)),
    _gpu("power", _gauge_of_gpu(dcgm.POWER)),
    _gpu("xid", _gauge_of_gpu(dcgm.XID)),
    _gpu("power_throttled", _throttled(dcgm.POWER_THROTTLED)),
    _gpu("heat_throttled", _throttled(dcgm.HEAT_THROTTLED)),
)
