"""The routes that docs/alerts.md proposes, as Alertmanager's own tool reads them."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from dashboards.alerts import ALERTS
from dashboards.inhibition import inhibition_yaml
from tests.prometheus import WATCHDOG_SECONDS, require_binary

GUIDE = Path(__file__).parents[2] / "docs" / "alerts.md"
RECEIVERS = {"none": "dead-mans-switch", "critical": "pager", "warning": "tickets", "info": "nobody"}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The guide's Alertmanager settings with the inhibition rules in their place."""
    blocks = re.findall(r"```yaml\n(.+?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    (written,) = [block for block in blocks if block.startswith("# alertmanager.yml")]
    settings = yaml.safe_load(written) | yaml.safe_load(inhibition_yaml())
    path = tmp_path_factory.mktemp("routes") / "alertmanager.yml"
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return path


def amtool(*arguments: str) -> str:
    answer = subprocess.run(
        [require_binary("amtool"), *arguments],
        capture_output=True,
        text=True,
        timeout=WATCHDOG_SECONDS,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout.strip()


def test_the_guide_with_the_inhibition_is_a_valid_configuration(config: Path) -> None:
    assert "SUCCESS" in amtool("check-config", str(config))


@pytest.mark.parametrize("severity", RECEIVERS)
def test_the_guide_routes_by_severity_and_the_watchdog_apart(config: Path, severity: str) -> None:
    alert = next(alert for alert in ALERTS.values() if alert.severity == severity)
    labels = (f"alertname={alert.name}", f"severity={severity}", "run=r")
    assert amtool("config", "routes", "test", f"--config.file={config}", *labels) == RECEIVERS[severity]
