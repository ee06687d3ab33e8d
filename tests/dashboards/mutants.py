"""Rules that are wrong in one place, as somebody's change could leave them."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dashboards.thresholds import THRESHOLDS

FLIPPED = {">": "<", "<": ">", ">=": "<", "<=": ">", "==": "!="}
COMPARISON = re.compile(r"(?<=\s)(>=|<=|==|>|<)(?=\s)")
CONDITION = re.compile(r"(?<=\s)(and|unless)(?= on )")
ZERO = [one.record for one in THRESHOLDS.values() if one.value == 0]
THRESHOLD = re.compile(rf"scalar\((?!{'|'.join(ZERO)})asyncrl:threshold:\w+\)")
RANGE = re.compile(r"(?<=\[)\w+(?=\])")
OVER_TIME = re.compile(r"(rate|increase|changes|\w+_over_time)\(")
BRIDGING = {"last_over_time", "max_over_time"}
"""What keeps a value over a gap: in most minutes it is no more than the value itself."""

Rule = Mapping[str, Any]


def mutants(rule: Rule) -> Iterator[tuple[str, Rule]]:
    """What is wrong, and the rule."""
    yield from plain_mutants(rule)
    expression = rule["expr"]
    wrong = [*_each(CONDITION, expression, lambda found: "unless" if found == "and" else "and")]
    for match in RANGE.finditer(expression):
        function = OVER_TIME.findall(expression, 0, match.start())[-1]
        if function not in BRIDGING:
            wrong.append(_with(match, "1s", expression))
    yield from ((what, {**rule, "expr": changed}) for what, changed in wrong)


def plain_mutants(rule: Rule) -> Iterator[tuple[str, Rule]]:
    """Wrong in its comparisons, its thresholds, or in how long it waits."""
    expression = rule["expr"]
    wrong = [*_each(COMPARISON, expression, FLIPPED.__getitem__)]
    for factor in (2, 0.5):
        wrong += _each(THRESHOLD, expression, f"({factor} * {{}})".format)
    yield from ((what, {**rule, "expr": changed}) for what, changed in wrong)
    for key in ("for", "keep_firing_for"):
        if key in rule:
            yield f"no {key}", {name: value for name, value in rule.items() if name != key}


def _each(
    pattern: re.Pattern[str], expression: str, replaced: Callable[[str], str]
) -> Iterator[tuple[str, str]]:
    for match in pattern.finditer(expression):
        yield _with(match, replaced(match[0]), expression)


def _with(match: re.Match[str], changed: str, expression: str) -> tuple[str, str]:
    line = expression.count("\n", 0, match.start()) + 1
    replaced = expression[: match.start()] + changed + expression[match.end() :]
    return f"line {line}: {changed} for {match[0]}", replaced
