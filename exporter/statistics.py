"""The arithmetic of merging: exact sums, weighted means, mergeable distributions. Pure."""

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Final, Self

import msgspec

LARGEST_SUM: Final = 2**59
"""In nanoseconds 18 years. Sums of a few such, as of the states of a clock, still fit into the journal's 64 bits."""


def whole_sum(terms: Iterable[int]) -> int:
    """The sum of counts or nanoseconds. It stops at LARGEST_SUM: nobody counts that far, and a sender that says so
    must not stop the journal."""
    return min(sum(terms), LARGEST_SUM)


class ExactSum(msgspec.Struct):
    """A running sum whose result does not depend on the order of its terms.

    Keeps the non-overlapping partial sums of Shewchuk (1997, "Adaptive Precision Floating-Point Arithmetic"),
    as `math.fsum` does, but in a form that can be stored and continued after a restart.
    """

    partials: list[float] = msgspec.field(default_factory=list)

    def add(self, term: float) -> None:
        kept = 0
        for partial in self.partials:
            large, small = (term, partial) if abs(term) >= abs(partial) else (partial, term)
            high = large + small
            low = small - (high - large)
            if low:
                self.partials[kept] = low
                kept += 1
            term = high
        self.partials[kept:] = [term]

    @property
    def value(self) -> float:
        return math.fsum(self.partials)


class Distribution(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Count, sum, extremes and second central moment of a set of values: `[count, sum, min, max, m2]`.

    `plain` marks a set that holds a bare double of a sender that gave no partial: its mean is known, its
    spread is not, so `min`, `max` and `std` are None.
    """

    count: int
    sum: float
    min: float = 0.0
    max: float = 0.0
    m2: float = 0.0
    plain: bool = False

    @property
    def mean(self) -> float | None:
        return self.sum / self.count if self.count else None

    @property
    def std(self) -> float | None:
        """Population standard deviation, sqrt(m2 / count)."""
        return math.sqrt(self.m2 / self.count) if self.count and not self.plain else None

    @property
    def extremes(self) -> tuple[float, float] | None:
        return (self.min, self.max) if self.count and not self.plain else None

    @classmethod
    def merged(cls, parts: Iterable[Self]) -> Self:
        """The distribution of all values of `parts`, the same to the last bit in any order of `parts`.

        m2 by the pairwise update of Chan, Golub and LeVeque (1979) around the merged mean:
        m2 = sum(m2_i + count_i * (mean_i - mean)^2).
        """
        full = [part for part in parts if part.count]
        count = sum(part.count for part in full)
        if not count:
            return cls(count=0, sum=0.0)
        total = math.fsum(part.sum for part in full)
        mean = total / count
        return cls(
            count=min(count, LARGEST_SUM),
            sum=total,
            min=min(part.min for part in full) + 0.0,  # else of 0.0 and -0.0 the first would win
            max=max(part.max for part in full) + 0.0,
            m2=math.fsum(part.m2 + part.count * (part.sum / part.count - mean) ** 2 for part in full),
            plain=any(part.plain for part in full),
        )


def weighted_mean(values: Sequence[float], weights: Sequence[float]) -> float | None:
    """The mean of finite values, each with its weight; None without weight. Values of weight 0 change nothing."""
    if 0.0 in weights:
        values = [value for value, weight in zip(values, weights, strict=True) if weight]
        weights = [weight for weight in weights if weight]
    if not values:
        return None
    if min(values) == max(values):
        return values[0] + 0.0  # to the last bit, which multiplying and dividing may lose; 0.0 for -0.0
    return math.fsum(map(operator.mul, values, weights)) / math.fsum(weights)
