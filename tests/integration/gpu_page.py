"""A page as dcgm-exporter writes it, of a host whose GPUs break one after the other, each in its own way."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from dashboards import dcgm
from exporter.catalog import Family
from tests.http_listener import listen

HOST = "train-0"
FAULTS = {
    "0": "AsyncRLGPUFailed",
    "1": "AsyncRLGPUThrottled",
    "2": "AsyncRLGPUMemoryFull",
    "3": "AsyncRLGPUMissing",
}
"""What is told of each GPU once it is broken; the fifth stays whole."""
_GPUS = ("0", "1", "2", "3", "4")
_FATAL_XID = 79
_THROTTLED_RATIO = 0.4


class GpuPage:
    """Served at `url`. Set `broken` at any time."""

    def __init__(self) -> None:
        self.url = ""
        self.broken = False
        self._throttled_ns = 0.0
        self._read = time.monotonic()

    def text(self) -> str:
        now = time.monotonic()
        if self.broken:
            self._throttled_ns += (now - self._read) * 1e9 * _THROTTLED_RATIO
        self._read = now
        there = [gpu for gpu in _GPUS if not (self.broken and gpu == "3")]
        families: dict[Family, dict[str, float]] = {
            dcgm.XID: {gpu: _FATAL_XID if self.broken and gpu == "0" else 0 for gpu in there},
            dcgm.HEAT_THROTTLED: {gpu: self._throttled_ns if gpu == "1" else 0 for gpu in there},
            dcgm.MEMORY_USED: {gpu: 99_000 if self.broken and gpu == "2" else 50_000 for gpu in there},
            dcgm.MEMORY_FREE: {gpu: 1_000 if self.broken and gpu == "2" else 50_000 for gpu in there},
            dcgm.TEMPERATURE: dict.fromkeys(there, 60.0),
        }
        lines = []
        for family, values in families.items():
            lines.append(f"# TYPE {family.name} {family.kind}")
            lines += [
                f'{family.name}{{gpu="{gpu}",{dcgm.HOST_LABEL}="{HOST}"{_code(family, value)}}} {value}'
                for gpu, value in values.items()
            ]
        return "\n".join(lines) + "\n"


def _code(family: Family, value: float) -> str:
    """Another XID is another series."""
    return f',err_code="{value}"' if family is dcgm.XID else ""


@contextmanager
def serve_gpu_page() -> Iterator[GpuPage]:
    """Until the block ends."""
    page = GpuPage()
    with listen(lambda _: page.text().encode(), content_type="text/plain; version=0.0.4") as page.url:
        yield page
