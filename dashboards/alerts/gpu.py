"""GPUs, as NVIDIA's dcgm-exporter sees them; quiet where there is none. They know hosts and no runs."""

from typing import Final

from dashboards import dcgm
from dashboards.alert import Alert, latest
from dashboards.promql import rate, selector
from dashboards.thresholds import limit

FATAL_XIDS: Final = (48, 62, 64, 74, 79, 95, 119, 120)
"""Codes after which a GPU works wrongly or not at all; of the others many are a program's own fault."""

_NANOSECONDS: Final = "1e9"
_GPU: Final = "GPU {{ $labels.gpu }} of {{ $labels.Hostname }}"
_USED: Final = latest(selector(dcgm.MEMORY_USED))
_THERE: Final = selector(dcgm.TEMPERATURE)
_HOST: Final = ", ".join(dcgm.HOST_LABELS)
_PLACE: Final = f"{_HOST}, gpu"
_XID: Final = f"max by ({_PLACE}) (last_over_time({selector(dcgm.XID)}[$bridge]))"
"""With another code also its labels `err_code` and `err_msg` are others, and those of the container that died of it
are gone: only place by place does it change."""

ALERTS: Final = (
    Alert(
        name="AsyncRLGPUFailed",
        severity="critical",
        expr=f"({' or '.join(f'{_XID} == {code}' for code in FATAL_XIDS)})"
        f" and on ({_PLACE}) changes(({_XID})[$recent:]) > 0",
        keep="aftermath",
        summary=f"{_GPU} failed",
        description=f"{_GPU} has XID error {{{{ $value }}}}: it works wrongly, or not at all.",
    ),
    Alert(
        name="AsyncRLGPUMissing",
        severity="critical",
        expr=f"group by ({_PLACE}) (last_over_time({_THERE}[$day])) unless on ({_PLACE}) {latest(_THERE)}"
        f" and on ({_HOST}) {latest(_THERE)}",
        hold="lasting",
        summary=f"{_GPU} is gone",
        description=f"{_GPU} was there, and is gone, while others of the host are still seen.",
    ),
    Alert(
        name="AsyncRLGPUThrottled",
        severity="warning",
        expr=f"{rate(selector(dcgm.HEAT_THROTTLED), '$recent')} / {_NANOSECONDS}"
        f" > {limit('gpu_heat_throttled_ratio')}",
        hold="lasting",
        keep="aftermath",
        summary=f"{_GPU} is too hot",
        description=f"Heat holds back the clock of {_GPU} for {{{{ $value | humanizePercentage }}}} of the time.",
    ),
    Alert(
        name="AsyncRLGPUMemoryFull",
        severity="warning",
        expr=f"{_USED} / ({_USED} + {latest(selector(dcgm.MEMORY_FREE))}) > {limit('gpu_memory_ratio')}",
        hold="sustained",
        keep="aftermath",
        summary=f"{_GPU} has no memory left",
        description=f"{{{{ $value | humanizePercentage }}}} of the memory of {_GPU} is in use.",
    ),
)
