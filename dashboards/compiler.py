"""From the YAML in boards/ to Grafana's JSON, by grafana-dashboard-builder and the types in components/."""

import json
from pathlib import Path
from typing import Any, Final

import yaml
from grafana_dashboards.components.base import ComponentRegistry
from grafana_dashboards.errors import DuplicateKeyError, UnregisteredComponentError

from dashboards.components import Board
from dashboards.errors import DashboardError

SOURCES: Final = Path(__file__).parent / "boards"
SHARED: Final = SOURCES / "shared.yaml"
"""Variables, marks and links that boards have in common, by name."""


def boards() -> dict[str, dict[str, Any]]:
    """Every board by its name."""
    registry = ComponentRegistry()
    # What is referred to has to be there first.
    for path in (SHARED, *sorted(path for path in SOURCES.glob("*.yaml") if path != SHARED)):
        try:
            for component in yaml.safe_load(path.read_text(encoding="utf-8")):
                registry.add(component)
        except (yaml.YAMLError, DuplicateKeyError) as error:
            raise DashboardError(f"{path.name}: {' '.join(str(error).split())}") from error
    return {board.name: _json(board) for board in registry[Board]}


def _json(board: Board) -> dict[str, Any]:
    try:
        made: dict[str, Any] = board.gen_json()
    except UnregisteredComponentError as error:  # a type, or a name of shared.yaml
        raise DashboardError(f"board {board.name!r}: {error}") from error
    return made


def board_files() -> dict[str, str]:
    """The text of each board, by its file's name."""
    return {
        f"{name}.json": json.dumps(board, indent=1, ensure_ascii=False) + "\n"
        for name, board in boards().items()
    }
