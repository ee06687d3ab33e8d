"""The routes that docs/alerts.md proposes, as Alertmanager's own tool reads them."""

import re
import subprocess
from pathlib import Path

import pytest

from dashboards.alerts import ALERTS
from dashboards.inhibition import inhibition_yaml
from dashboards.rules import rules_yaml
from tests.prometheus import WATCHDOG_SECONDS, require_binary

GUIDE = Path(__file__).parents[2] / "docs" / "alerts.md"
RECEIVERS = {"none": "dead-mans-switch", "critical": "pager", "warning": "tickets", "info": "nobody"}


def blocks(file: str) -> list[str]:
    """What the guide proposes for a file."""
    found = re.findall(r"```yaml\n(.+?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    return [block for block in found if block.startswith(f"# {file}\n")]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The guide's Alertmanager settings with the inhibition rules behind them."""
    (routes,) = blocks("routes.yml")
    path = tmp_path_factory.mktemp("routes") / "alertmanager.yml"
    path.write_text(routes + inhibition_yaml(), encoding="utf-8")
    return path


def answer_of(tool: str, *arguments: str) -> str:
    answer = subprocess.run(
        [require_binary(tool), *arguments],
        capture_output=True,
        text=True,
        timeout=WATCHDOG_SECONDS,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout.strip()


def test_the_guide_with_the_inhibition_is_a_valid_configuration(config: Path) -> None:
    assert "SUCCESS" in answer_of("amtool", "check-config", str(config))


@pytest.mark.parametrize("severity", RECEIVERS)
def test_the_guide_routes_by_severity_and_the_watchdog_apart(config: Path, severity: str) -> None:
    alert = next(alert for alert in ALERTS.values() if alert.severity == severity)
    labels = (f"alertname={alert.name}", f"severity={severity}", "run=r")
    assert (
        answer_of("amtool", "config", "routes", "test", f"--config.file={config}", *labels)
        == RECEIVERS[severity]
    )


def test_the_guide_has_valid_settings_of_prometheus(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(rules_yaml(), encoding="utf-8")
    proposed = blocks("prometheus.yml")
    assert proposed
    for number, block in enumerate(proposed):
        path = tmp_path / f"prometheus-{number}.yml"
        path.write_text(block, encoding="utf-8")
        assert "SUCCESS" in answer_of("promtool", "check", "config", str(path))
