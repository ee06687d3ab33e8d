"""The page that `make generate` writes: every value is on it, with its type and its meaning."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
GENERATOR = ROOT / "docs" / "chart.py"


def leaves(values: dict[str, Any], above: str = "") -> Iterator[str]:
    """Dotted paths of what is no map, or an empty one."""
    for key, value in values.items():
        path = f"{above}{key}"
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{path}.")
        else:
            yield path


def rows() -> list[list[str]]:
    """The cells of the table: value, type, default, meaning."""
    page = (ROOT / "helm" / "README.md").read_text(encoding="utf-8")
    _, table = page.split("|---|---|---|---|\n")
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()]


def test_every_value_has_a_row_of_its_own_or_of_the_map_that_it_is_in() -> None:
    values = yaml.safe_load((ROOT / "helm" / "values.yaml").read_text(encoding="utf-8"))
    named = {row[0].strip("`") for row in rows()}
    without = [
        leaf
        for leaf in leaves(values)
        if not any(leaf == name or leaf.startswith(f"{name}.") for name in named)
    ]
    assert without == []


def test_every_row_has_the_type_of_the_schema_and_a_meaning() -> None:
    assert [row for row in rows() if len(row) != 4 or not all(row) or row[1] == "any"] == []


def test_defaults_are_those_of_the_file() -> None:
    defaults = {row[0]: row[2] for row in rows()}
    assert defaults["`replicas`"] == "`1`"
    assert defaults["`ports.metrics`"] == "`9810`"
    assert defaults["`networkPolicy.scrapeNamespaces`"] == '`["monitoring"]`'
    assert defaults["`dashboards.labelValue`"] == '`"1"`'


def test_the_page_is_current() -> None:
    check = subprocess.run(
        [sys.executable, GENERATOR, "--check"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (check.returncode, check.stderr) == (0, "")
