"""Typed reading of the attributes of one span. What is wrong with a value is remembered, not raised, where the
span is still good without it."""

import math
from typing import Final

from exporter.errors import Rejected
from exporter.records import AttributeValue
from exporter.statistics import Distribution

NS: Final = 1_000_000_000
LARGEST: Final = 1e150
"""Beyond this a value is refused: its square and sums must stay finite."""
LARGEST_INTEGER: Final = 10**15
"""Beyond this an integer is refused: sums of many must fit into the 64 bits of the journal."""
LONGEST_LABEL: Final = 200
ROUNDING: Final = 1e-3
"""How far two ways to add up may differ: sums in single precision are nearer, those of other values are not."""


def label(text: str) -> str:
    """A label value: cut to a length that no scraper's limit refuses."""
    return text[:LONGEST_LABEL]


class Attributes:
    """The attributes of one span; `problems` holds the reasons of the values left out so far."""

    def __init__(self, span_name: str, attributes: dict[str, AttributeValue]) -> None:
        self.span_name = span_name
        self.all = attributes
        self.problems: list[str] = []

    def text(self, name: str) -> str:
        value = self.all.get(name)
        return value if isinstance(value, str) else ""

    def integer(self, name: str) -> int | None:
        """An optional integer; a double with an integral value is one. Anything else rejects the span."""
        raw = self.all.get(name)
        if raw is None:
            return None
        value = whole(raw)
        if value is None:
            raise Rejected("bad_value", f"{name} is {raw!r}, expected an integer within 10**15")
        return value

    def required_integer(self, name: str) -> int:
        value = self.integer(name)
        if value is None:
            raise Rejected("missing_attribute", f"{self.span_name} has no {name}")
        return value

    def count(self, name: str) -> int | None:
        """An optional count. A negative or fractional one is left out and named."""
        try:
            value = self.integer(name)
        except Rejected:
            value = -1
        if value is not None and value < 0:
            self.problems.append("bad_value")
            return None
        return value

    def seconds(self, name: str) -> int | None:
        """An optional duration, as nanoseconds. A negative or non-finite one is left out and named."""
        if name not in self.all:
            return None
        value = number(self.all[name])
        if value is None or not 0 <= value < 1e8:
            self.problems.append("bad_value")
            return None
        return round(value * NS)

    def durations(self, prefix: str, known: frozenset[str]) -> dict[str, int]:
        """The durations under a prefix. What is none is left out and named; an unknown name rejects the span."""
        found: dict[str, int] = {}
        for name in self.all:
            if name.startswith(prefix):
                key = name.removeprefix(prefix)
                if key not in known:
                    raise Rejected("unknown_state", f"{name}: expected one of {', '.join(sorted(known))}")
                duration = self.seconds(name)
                if duration is not None:
                    found[key] = duration
        return found


def number(raw: AttributeValue) -> float | None:
    """A double, or None for what is no number. Integers are accepted, truth values are not."""
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        return None
    try:
        return float(raw)
    except OverflowError:
        return None


def finite(raw: AttributeValue) -> float:
    """The number; Rejected as `nonfinite` for NaN and infinities, as `bad_value` for anything else."""
    if type(raw) is float and -LARGEST <= raw <= LARGEST:
        return raw  # as nearly all are
    value = number(raw)
    if value is None:
        raise Rejected("bad_value", f"{raw!r} is no number")
    if not math.isfinite(value):
        raise Rejected("nonfinite", f"{value}")
    if abs(value) > LARGEST:
        raise Rejected("bad_value", f"{value} is beyond {LARGEST}")
    return value


def whole(raw: AttributeValue) -> int | None:
    """The integer; a double with an integral value is one. None for anything else, and beyond LARGEST_INTEGER."""
    if type(raw) is float and raw.is_integer():
        raw = int(raw)
    return raw if type(raw) is int and -LARGEST_INTEGER <= raw <= LARGEST_INTEGER else None


def natural_numbers(raw: tuple[AttributeValue, ...]) -> tuple[int, ...]:
    """The integers of at least 0 among these."""
    numbers = [part if type(part) is int else whole(part) for part in raw]
    return tuple([number for number in numbers if number is not None and number >= 0])


def partial(raw: tuple[AttributeValue, ...]) -> Distribution:
    """`[count, sum, min, max, m2]`; with count 0 the rest is ignored."""
    if len(raw) != 5:
        raise Rejected("bad_value", f"a distribution has 5 parts, got {len(raw)}")
    count = whole(raw[0])
    if count is None or count < 0:
        raise Rejected("bad_value", f"count is {raw[0]!r}, expected an integer of at least 0")
    if count == 0:
        return Distribution(count=0, sum=0.0)
    total, low, high, m2 = map(finite, raw[1:])
    if m2 < 0 or low > high:
        raise Rejected("bad_value", f"m2 {m2} is negative, or min {low} above max {high}")
    slack = ROUNDING * count * max(abs(low), abs(high))
    if not count * low - slack <= total <= count * high + slack or total < 0 <= low:
        raise Rejected("bad_value", f"{total} is no sum of {count} values from {low} to {high}")
    return Distribution(count=count, sum=total, min=low, max=high, m2=m2)
