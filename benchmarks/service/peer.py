"""Runs the script of another system in the virtual environment that it needs, made at the first use."""

import functools
import json
import subprocess
import sys
from pathlib import Path

_CACHE = Path(".cache")
RL_INSIGHT = "rl-insight==0.3.0"


@functools.cache
def measure_peer(requirement: str, script: str, *arguments: str) -> dict[str, float]:
    """What `benchmarks/peers/<script>.py` prints as its last line, JSON."""
    folder = _CACHE / requirement.partition("==")[0]
    python = folder / "bin" / "python"
    if not (folder / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", requirement], check=True)
        (folder / "installed").touch()
    command = [str(python), f"benchmarks/peers/{script}.py", *arguments]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=600).stdout
    figures: dict[str, float] = json.loads(said.splitlines()[-1])
    return figures
