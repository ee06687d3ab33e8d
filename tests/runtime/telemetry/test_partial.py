import math
import sys
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.telemetry.partial import Partial
from runtime.telemetry.schema import BUCKETS

VALUES = st.lists(st.floats(min_value=-1e6, max_value=1e6, allow_subnormal=False), max_size=30)


def close(left: Partial, right: Partial, scale: float) -> None:
    """Equal counts and extremes; sums within 1e-12 of the magnitudes that went in."""
    assert (left.count, left.min, left.max) == (right.count, right.min, right.max)
    assert (left.buckets, left.nonfinite) == (right.buckets, right.nonfinite)
    assert left.sum == pytest.approx(right.sum, rel=1e-12, abs=1e-12 * scale * max(left.count, 1))
    # Squares below the smallest normal double keep only a few digits.
    rounding = max(1e-12 * scale * scale * max(left.count, 1), sys.float_info.min)
    assert left.m2 == pytest.approx(right.m2, rel=1e-12, abs=rounding)


def test_counts_sum_extremes_spread_and_inclusive_buckets() -> None:
    partial = Partial.of("staleness", [0, 1, 1, 2, 5, 40])
    assert (partial.count, partial.sum, partial.min, partial.max) == (6, 49.0, 0.0, 40.0)
    assert partial.m2 == pytest.approx(sum((value - 49 / 6) ** 2 for value in [0, 1, 1, 2, 5, 40]))
    assert partial.buckets == (1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 1)


def test_non_finite_values_are_counted_and_left_out() -> None:
    partial = Partial.of("step", [1.0, math.nan, math.inf, -math.inf, 3.0])
    assert (partial.count, partial.sum, partial.nonfinite) == (2, 4.0, 3)
    assert partial.buckets is not None
    assert sum(partial.buckets) == 2


def test_an_empty_partial_is_valid_and_changes_nothing() -> None:
    empty = Partial.of("reward", [])
    assert empty == Partial(buckets=(0,) * (len(BUCKETS["reward"]) + 1))
    full = Partial.of("reward", [0.5, 1.0])
    assert empty.merge(full) == full.merge(empty) == full
    assert Partial().merge(full) == full.merge(Partial()) == full


def test_a_metric_without_buckets_has_none() -> None:
    assert Partial.of("policy_loss", [1.0]).buckets is None


def test_missing_buckets_are_not_read_as_zeros() -> None:
    with_buckets = Partial.of("reward", [0.5])
    without = Partial(count=1, sum=1.0, min=1.0, max=1.0)
    assert with_buckets.merge(without).buckets is None
    assert without.merge(with_buckets).buckets is None


@given(st.lists(VALUES, min_size=3, max_size=3))
def test_merging_is_associative_commutative_and_equals_counting_at_once(parts: list[list[float]]) -> None:
    a, b, c = (Partial.of("reward", part) for part in parts)
    scale = max((abs(value) for part in parts for value in part), default=1.0)
    close(a.merge(b), b.merge(a), scale)
    close(a.merge(b).merge(c), a.merge(b.merge(c)), scale)
    close(reduce(Partial.merge, (a, b, c)), Partial.of("reward", [v for part in parts for v in part]), scale)
