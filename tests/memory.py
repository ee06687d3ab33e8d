"""How much memory a process holds."""

from pathlib import Path


def resident_bytes(pid: int) -> int:
    """Resident set size of a running process."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024


def peak_bytes(pid: int) -> int:
    """The largest resident set size it has had so far."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024
