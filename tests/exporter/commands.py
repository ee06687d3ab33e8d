"""Runs `asyncrl ...` as a process."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
WATCHDOG_SECONDS = 120


def asyncrl(*arguments: str | Path, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The finished command. `folder` comes first in PATH."""
    path = os.environ["PATH"] if folder is None else f"{folder}:{os.environ['PATH']}"
    return subprocess.run(
        [sys.executable, "-P", "-m", "asyncrl", *arguments],
        env={"PYTHONPATH": str(ROOT), "PATH": path, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=WATCHDOG_SECONDS,
        check=False,
    )
