"""The families of NVIDIA's dcgm-exporter that boards and alerts use, where it runs beside the trainer and rollouters.

They know GPUs and hosts, and no run. All but the last three are in dcgm-exporter's default counters; those are
switched on in its CSV file.
"""

from typing import Final

from exporter.catalog import Family, Kind

HOST_LABEL: Final = "Hostname"
"""Every host has a GPU 0."""
HOST_LABELS: Final = ("cluster", HOST_LABEL)
"""What tells hosts apart: those of two clusters may be called the same."""


def _field(name: str, help_text: str, kind: Kind = "gauge") -> Family:
    return Family(name=f"DCGM_FI_{name}", kind=kind, help=help_text, labels=(HOST_LABEL, "gpu"))


GPU_UTIL: Final = _field("DEV_GPU_UTIL", "Share of time in which a kernel ran, however small, percent")
MEMORY_USED: Final = _field("DEV_FB_USED", "GPU memory in use, MiB")
MEMORY_FREE: Final = _field("DEV_FB_FREE", "GPU memory that is free, MiB")
TEMPERATURE: Final = _field("DEV_GPU_TEMP", "Temperature of the GPU, degrees Celsius")
POWER: Final = _field("DEV_POWER_USAGE", "Power that the GPU draws, watts")
XID: Final = _field("DEV_XID_ERRORS", "Code of the last XID error; it is never set back to 0")
TENSOR_ACTIVE: Final = _field(
    "PROF_PIPE_TENSOR_ACTIVE", "Share of cycles in which the tensor cores worked, 0..1"
)
POWER_THROTTLED: Final = _field(
    "DEV_POWER_VIOLATION", "Time the clock was held back for power, ns", "counter"
)
HEAT_THROTTLED: Final = _field(
    "DEV_THERMAL_VIOLATION", "Time the clock was held back for heat, ns", "counter"
)
