"""Where a figure was measured: without this line it means nothing."""

import os
import platform
import re
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("asyncrl-exporter", "torch", "ray", "opentelemetry-sdk", "requests")


def machine() -> str:
    """Processor, load, and the versions of what was measured, in two lines."""
    load, _, _ = os.getloadavg()
    versions = [f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in PACKAGES)]
    return (
        f"{_processor()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}, load {load:.1f}\n"
        f"{', '.join(versions)}"
    )


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    named = re.search(r"model name\s*: (.*)", information.read_text()) if information.exists() else None
    return named[1] if named else platform.machine()
