"""From the YAML in boards/ to Grafana's JSON, by grafana-dashboard-builder and the types in components/."""

import json
from pathlib import Path
from typing import Any, Final

import yaml
from grafana_dashboards.components.base import ComponentRegistry

from dashboards.components import Board

SOURCES: Final = Path(__file__).parent / "boards"
SHARED: Final = SOURCES / "shared.yaml"
"""Variables, marks and links that boards have in common, by name."""


def boards() -> dict[str, dict[str, Any]]:
    """Every board by its name."""
    registry = ComponentRegistry()
    # What is referred to has to be there first.
    for path in (SHARED, *sorted(path for path in SOURCES.glob("*.yaml") if path != SHARED)):
        for component in yaml.safe_load(path.read_text(encoding="utf-8")):
            registry.add(component)
    return {board.name: board.gen_json() for board in registry[Board]}


def board_files() -> dict[str, str]:
    """The text of each board, by its file's name."""
    return {
        f"{name}.json": json.dumps(board, indent=1, ensure_ascii=False) + "\n"
        for name, board in boards().items()
    }
