"""docs/runbooks/README.md: every alert by group, with its severity and what it tells."""

import re
from pathlib import Path
from typing import Final

from dashboards import durations
from dashboards.alert import Alert
from dashboards.alerts import GROUPS

INDEX: Final = Path(__file__).parent.parent / "docs" / "runbooks" / "README.md"

_HEAD: Final = """\
<!-- Generated from dashboards/alerts/ by `make generate`. Not edited by hand. -->
# Runbooks

What to do when an alert tells of something: what it means, what it costs, how to find the cause, what helps.
[alerts.md](../alerts.md) says how to load the rules, route them and change their thresholds.

`critical`: act now. `warning`: act today. `info`: good to know. `none`: the Watchdog, which is never off.

A condition that looks back over some minutes, as that of AsyncRLExporterReplicaDown does, becomes true only when all of
them are bad; how long it lasts before it fires counts from there.
"""
_TABLE: Final = "| alert | severity | lasts before it fires | what it tells |\n| --- | --- | --- | --- |"


def runbooks_index() -> str:
    """The text of the index."""
    parts = [_HEAD]
    for group, alerts in GROUPS.items():
        rows = "\n".join(_row(alert) for alert in alerts)
        parts.append(f"## {group.capitalize()}\n\n{_TABLE}\n{rows}\n")
    return "\n".join(parts)


def _row(alert: Alert) -> str:
    lasts = durations.written(alert.hold) if alert.hold else "at once"
    told = re.sub(r"{{ \$labels\.(\w+) }}", r"*\1*", alert.summary)
    return f"| [{alert.name}]({alert.name}.md) | {alert.severity} | {lasts} | {told} |"
