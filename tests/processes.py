"""The processes below one of ours, read from /proc: to kill one of them, and to see that none is left."""

from collections.abc import Iterable
from pathlib import Path


def descendants(pid: int) -> dict[int, str]:
    """The process ids of all children, their children and so on, each with its command line."""
    parents: dict[int, int] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The command's name is in parentheses and may hold anything; the parent follows the state.
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
    found = {pid}
    while grown := {child for child, parent in parents.items() if parent in found} - found:
        found |= grown
    return {child: _command(child) for child in found - {pid}}


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
    except OSError:
        return ""


def find(pid: int, name: str) -> int:
    """The one descendant of `pid` whose command line starts with `name`."""
    (found,) = [child for child, command in descendants(pid).items() if command.startswith(name)]
    return found


def alive(pids: Iterable[int]) -> dict[int, str]:
    """Those of `pids` that still run, with their command lines; a process that only awaits its parent is gone."""
    found = {}
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z":
            found[pid] = _command(pid)
    return found
