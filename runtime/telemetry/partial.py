"""A distribution as a mergeable partial: what travels instead of a mean.

Two steps of 1 and 3 samples with means 0.0 and 1.0: the mean of the means says 0.5, the merged partial 0.75.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from runtime.telemetry.schema import BUCKETS


@dataclass(frozen=True, kw_only=True, slots=True)
class Partial:
    """Count, sum, extremes and spread of finite values; an empty one is all zeros."""

    count: int = 0
    sum: float = 0.0
    min: float = 0.0
    max: float = 0.0
    m2: float = 0.0
    """Sum of squared deviations from the mean."""
    buckets: tuple[int, ...] | None = None
    """Counts per bucket of `schema.BUCKETS`, `+Inf` last; None for a metric that has none."""
    nonfinite: int = 0
    """NaN and infinite values: counted here and left out of everything else."""

    @classmethod
    def of(cls, name: str, values: Iterable[float]) -> "Partial":
        """The partial of `values` of the metric `name`, counted into that metric's buckets if it has any."""
        array = np.fromiter(values, dtype=np.float64)  # (N,)
        finite = array[np.isfinite(array)]
        bounds = BUCKETS.get(name)
        buckets = None
        if bounds is not None:
            # Upper bounds are inclusive, as in a classic histogram's `le`.
            places = np.searchsorted(bounds, finite, side="left")
            buckets = tuple(np.bincount(places, minlength=len(bounds) + 1).tolist())
        nonfinite = len(array) - len(finite)
        if not len(finite):
            return cls(buckets=buckets, nonfinite=nonfinite)
        return cls(
            count=len(finite),
            sum=float(finite.sum()),
            min=float(finite.min()),
            max=float(finite.max()),
            m2=float(np.square(finite - finite.mean()).sum()),
            buckets=buckets,
            nonfinite=nonfinite,
        )

    def merge(self, other: "Partial") -> "Partial":
        """Both together, as if their values had been counted at once (Chan, Golub, LeVeque 1979, eq. 2.1)."""
        if not self.count or not other.count:
            full = self if self.count else other
            count, total, low, high, m2 = full.count, full.sum, full.min, full.max, full.m2
        else:
            count = self.count + other.count
            total = self.sum + other.sum
            low, high = min(self.min, other.min), max(self.max, other.max)
            delta = other.sum / other.count - self.sum / self.count
            m2 = self.m2 + other.m2 + delta * delta * (self.count * other.count / count)
        return Partial(
            count=count,
            sum=total,
            min=low,
            max=high,
            m2=m2,
            buckets=_merged_buckets(self, other),
            nonfinite=self.nonfinite + other.nonfinite,
        )


def _merged_buckets(left: Partial, right: Partial) -> tuple[int, ...] | None:
    if left.buckets is not None and right.buckets is not None:
        return tuple(a + b for a, b in zip(left.buckets, right.buckets, strict=True))
    # Counts that are missing on one side must not be read as zeros, unless that side is empty.
    if left.buckets is None and not left.count:
        return right.buckets
    return left.buckets if not right.count else None
