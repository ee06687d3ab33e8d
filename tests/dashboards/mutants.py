"""Rules that are wrong in one place, as somebody's change could leave them."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from dashboards import durations
from dashboards.thresholds import THRESHOLDS

FLIPPED = {">": "<", "<": ">", ">=": "<", "<=": ">", "==": "!="}
COMPARISON = re.compile(r"(?<=\s)(>=|<=|==|>|<)(?=\s)")
CONDITION = re.compile(r"(?<=\s)(and|unless)(?= on )")
BRIDGE = f"for {durations.written('bridge')}"
ZERO = [one.record for one in THRESHOLDS.values() if one.value == 0]
THRESHOLD = re.compile(rf"scalar\((?!{'|'.join(ZERO)})asyncrl:threshold:\w+\)")
RANGE = re.compile(r"(?<=\[)\w+(?=\])")

Rule = Mapping[str, Any]


def mutants(rule: Rule) -> Iterator[tuple[str, Rule]]:
    """What is wrong, and the rule: the most telling first."""
    for key in ("for", "keep_firing_for"):
        if key in rule:
            yield f"no {key}", {name: value for name, value in rule.items() if name != key}
    for what, expression in _expressions(rule["expr"]):
        yield what, {**rule, "expr": expression}
    for what, expression in _each(RANGE, rule["expr"], lambda found: "1s"):
        if BRIDGE not in what or "keep_firing_for" not in rule:  # that bridges, too
            yield what, {**rule, "expr": expression}


def _expressions(expression: str) -> Iterator[tuple[str, str]]:
    for factor in (2, 0.5):
        yield from _each(THRESHOLD, expression, lambda found, by=factor: f"({by} * {found})")
    yield from _each(COMPARISON, expression, lambda found: FLIPPED[found])
    yield from _each(CONDITION, expression, lambda found: "unless" if found == "and" else "and")


def _each(pattern: re.Pattern[str], expression: str, replaced: Any) -> Iterator[tuple[str, str]]:
    for match in pattern.finditer(expression):
        changed = replaced(match[0])
        line = expression.count("\n", 0, match.start()) + 1
        yield (
            f"line {line}: {changed} for {match[0]}",
            expression[: match.start()] + changed + expression[match.end() :],
        )
