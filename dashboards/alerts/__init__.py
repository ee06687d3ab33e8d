"""Every alert, by group. A group is a question; its file has the alerts that answer it."""

from typing import Final

from dashboards.alert import Alert
from dashboards.alerts import data, exporter, gpu, learning, progress, samples, telemetry, waiting

GROUPS: Final[dict[str, tuple[Alert, ...]]] = {
    "exporter": exporter.ALERTS,
    "telemetry": telemetry.ALERTS,
    "data": data.ALERTS,
    "progress": progress.ALERTS,
    "waiting": waiting.ALERTS,
    "samples": samples.ALERTS,
    "learning": learning.ALERTS,
    "gpu": gpu.ALERTS,
}

ALERTS: Final[dict[str, Alert]] = {alert.name: alert for group in GROUPS.values() for alert in group}
