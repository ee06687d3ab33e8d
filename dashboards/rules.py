"""The rule file: thresholds, recordings and alerts as Prometheus loads them, in this order."""

from collections.abc import Sequence
from typing import Any, Final

import promql_parser
import yaml

from dashboards import durations
from dashboards.alert import Alert
from dashboards.alerts import GROUPS
from dashboards.recording import RECORDINGS
from dashboards.thresholds import THRESHOLDS

HEAD: Final = "# Generated from dashboards/ by `make generate`. Not edited by hand.\n"
PREFIX: Final = "asyncrl-"


class _Writer(yaml.SafeDumper):
    """Writes what has several lines as they are, and repeats instead of referring."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(writer: _Writer, text: str) -> yaml.Node:
    return writer.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Writer.add_representer(str, _text)


def rules(divisor: int = 1) -> dict[str, Any]:
    """The rule file as data. `divisor` shortens every duration."""
    interval = durations.written("evaluation", divisor)
    groups: dict[str, Sequence[dict[str, Any]]] = {
        "thresholds": [
            {
                "record": one.record,
                "expr": f"vector({one.number(divisor):.10g})",
                "labels": {"threshold": one.name},  # what tells them apart where functions drop the name
            }
            for one in THRESHOLDS.values()
        ],
        "recordings": [{"record": one.record, "expr": _expr(one.expr, divisor)} for one in RECORDINGS],
        **{name: [_alert(alert, divisor) for alert in alerts] for name, alerts in GROUPS.items()},
    }
    return {
        "groups": [
            {"name": f"{PREFIX}{name}", "interval": interval, "rules": list(group)}
            for name, group in groups.items()
        ]
    }


def rules_yaml(divisor: int = 1) -> str:
    """The text of the rule file."""
    return HEAD + written(rules(divisor))


def written(data: object) -> str:
    """YAML in the order of the data."""
    return yaml.dump(data, Dumper=_Writer, sort_keys=False, allow_unicode=True, width=120)


def _alert(alert: Alert, divisor: int) -> dict[str, Any]:
    waits = {"for": alert.hold, "keep_firing_for": alert.keep}
    return {
        "alert": alert.name,
        "expr": _expr(alert.expr, divisor),
        **{key: durations.written(name, divisor) for key, name in waits.items() if name},
        "labels": {"severity": alert.severity},
        "annotations": {
            "summary": alert.summary,
            "description": alert.description,
            "runbook_url": alert.runbook_url,
        },
    }


def _expr(expression: str, divisor: int) -> str:
    """Parsed, and written over several lines."""
    return promql_parser.parse(durations.fill(expression, divisor)).prettify()
