"""The generated boards and rules as they are shipped, and what their expressions name."""

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import promql_parser
import yaml

from dashboards.promql import REPORTED
from exporter import catalog
from exporter.catalog import FAMILY_BY_NAME, PREFIX, Family

GENERATED: Final = Path(__file__).parents[2] / "dashboards" / "generated"
BOARDS: Final[dict[str, dict[str, Any]]] = {
    path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(GENERATED.glob("*.json"))
}
RULES: Final[list[dict[str, Any]]] = [
    rule
    for group in yaml.safe_load((GENERATED / "rules.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]

HISTOGRAM_PARTS: Final = ("_bucket", "_sum", "_count")

EMPTY: Final = dict.fromkeys(("run", "rollouter", "attempt"), "")
ONE: Final = {"run": "a", "rollouter": "0", "attempt": "1"}
SEVERAL: Final = {"run": "(a|b)", "rollouter": "(0|1)", "attempt": "(1|2)"}
ALL: Final = {"run": ".+", "rollouter": ".*", "attempt": ".*"}
"""What Grafana puts in the place of the variables; allValue where all are chosen."""


def panels(board: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Rows, and what lies in collapsed ones, included."""
    for panel in board["panels"]:
        yield panel
        yield from panel.get("panels", [])


@dataclass(frozen=True, kw_only=True, slots=True)
class Expression:
    """One query of a board, and where it stands."""

    where: str
    text: str

    def given(self, variables: dict[str, str], *, rate: str = "1m", window: str = "1h") -> str:
        """As Grafana sends it."""
        text = self.text.replace("$__rate_interval", rate).replace("$__range", window)
        return re.sub(r"\$(\w+)", lambda name: variables[name[1]], text)


def expressions(*boards: str) -> list[Expression]:
    """Of the panels and the marks of these boards, or of all."""
    found = []
    for name in boards or BOARDS:
        for panel in panels(BOARDS[name]):
            where = f"{name}: {panel.get('title')}"
            found += [Expression(where=where, text=target["expr"]) for target in panel.get("targets", [])]
        marks = BOARDS[name]["annotations"]["list"]
        found += [Expression(where=f"{name}: mark {mark['name']}", text=mark["expr"]) for mark in marks]
    return found


def distinct(found: list[Expression]) -> list[Expression]:
    """Each text once."""
    return list({expression.text: expression for expression in found}.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class Selected:
    """A selector of an expression: `over` is the range of a range selector, or nothing; `inside` the functions
    around it, the innermost first."""

    name: str
    matchers: tuple[tuple[str, str, str], ...]
    ranged: bool
    inside: tuple[str, ...]

    def label(self, name: str) -> str | None:
        return next((value for label, _, value in self.matchers if label == name), None)


def selected(text: str) -> list[Selected]:
    """Every selector of an expression without variables in durations."""
    return list(_selectors(promql_parser.parse(text), ()))


def _selectors(node: Any, inside: tuple[str, ...]) -> Iterator[Selected]:
    match type(node).__name__:
        case "VectorSelector":
            yield from _selector(node, False, inside)
        case "MatrixSelector":
            yield from _selector(node.vector_selector, True, inside)
        case "Call":
            for argument in node.args:
                yield from _selectors(argument, (node.func.name, *inside))
        case "BinaryExpr":
            yield from itertools.chain(_selectors(node.lhs, inside), _selectors(node.rhs, inside))
        case "AggregateExpr" | "ParenExpr" | "UnaryExpr" | "SubqueryExpr":
            yield from _selectors(node.expr, inside)


def _selector(node: Any, ranged: bool, inside: tuple[str, ...]) -> Iterator[Selected]:
    matchers = tuple((m.name, str(m.op), m.value) for m in node.matchers.matchers)
    names = [node.name] if node.name else _spelled_out({m.name: m.value for m in node.matchers.matchers})
    for name in names:
        yield Selected(name=name, matchers=matchers, ranged=ranged, inside=inside)


def _spelled_out(matchers: dict[str, str]) -> list[str]:
    """The names that `__name__=~"prefix_(one|other)"` chooses; with `(.+)` the rules recorded under the prefix."""
    prefix, choice = matchers["__name__"].rstrip(")").split("(")
    if choice == ".+":
        return [rule["record"] for rule in RULES if rule.get("record", "").startswith(prefix)]
    return [prefix + name for name in choice.split("|")]


def grouping_labels(text: str) -> set[str]:
    """Labels that an expression aggregates by or matches on; those it drops are not asked for."""
    return {
        label.strip()
        for labels in re.findall(r"\b(?:by|on|group_left|group_right)\s*\(([^)]*)\)", text)
        for label in labels.split(",")
        if label.strip()
    }


def family_of(name: str) -> Family | None:
    """The family that a series belongs to; None of what Prometheus or other exporters publish."""
    if name in FAMILY_BY_NAME:
        return FAMILY_BY_NAME[name]
    for end in HISTOGRAM_PARTS:
        if FAMILY_BY_NAME.get(name.removesuffix(end), catalog.PARAM_VERSION).kind == "histogram":
            return FAMILY_BY_NAME[name.removesuffix(end)]
    for prefix in (f"{PREFIX}version_{REPORTED}", f"{PREFIX}{REPORTED}"):
        if name.startswith(prefix):
            window = prefix.removesuffix(REPORTED)
            exact = FAMILY_BY_NAME[window + name.removeprefix(prefix)]
            labels = tuple(label for label in exact.labels if label != "rollouter")
            return Family(name=name, kind="gauge", help=exact.help, labels=(*labels, "source"))
    return None
