"""Merging: exact, associative, commutative; the right mean of unequal parts."""

import math
import statistics
import struct
from itertools import permutations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exporter.attributes import partial
from exporter.errors import Rejected
from exporter.ranges import Ranges
from exporter.statistics import Distribution, ExactSum, weighted_mean

VALUES = st.floats(min_value=-1e6, max_value=1e6)


def distribution(values: list[float]) -> Distribution:
    """Straight from the definition."""
    if not values:
        return Distribution(count=0, sum=0.0)
    mean = statistics.fmean(values)
    m2 = math.fsum((value - mean) ** 2 for value in values)
    return Distribution(count=len(values), sum=math.fsum(values), min=min(values), max=max(values), m2=m2)


@given(st.lists(st.lists(VALUES, max_size=6), min_size=1, max_size=5))
def test_merged_parts_are_the_distribution_of_all_values(parts: list[list[float]]) -> None:
    merged = Distribution.merged(distribution(part) for part in parts)
    right = distribution([value for part in parts for value in part])
    assert merged.count == right.count
    assert (merged.min, merged.max) == (right.min, right.max)
    assert merged.sum == pytest.approx(right.sum, rel=1e-12, abs=1e-6)
    assert merged.m2 == pytest.approx(right.m2, rel=1e-9, abs=1e-3)


@given(st.lists(st.lists(VALUES, min_size=1, max_size=4), min_size=1, max_size=4))
@example([[0.0], [-0.0]])
def test_the_order_of_the_parts_changes_no_bit(parts: list[list[float]]) -> None:
    orders = [[distribution(part) for part in order] for order in permutations(parts)]
    assert len({repr(Distribution.merged(order)) for order in orders}) == 1


@given(st.lists(st.floats(min_value=-1e100, max_value=1e100), max_size=50))
def test_an_exact_sum_is_the_correctly_rounded_sum(terms: list[float]) -> None:
    total = ExactSum()
    for term in terms:
        total.add(term)
    assert total.value == math.fsum(terms)


def test_a_mean_is_weighted_by_what_it_is_over() -> None:
    assert weighted_mean([0.9, 0.1], [10, 990]) == pytest.approx(0.108, abs=1e-15)
    assert weighted_mean([0.1, 0.9], [990, 10]) == weighted_mean([0.9, 0.1], [10, 990])
    assert weighted_mean([0.5], [0]) is None
    assert weighted_mean([0.7], [3.0]) == 0.7


@pytest.mark.parametrize("weights", [[3.0, 0.0, 0.0], [3.0, 7.0, 0.0], [1.0, 1.0, 1.0]])
@given(value=VALUES, other=VALUES)
def test_the_mean_of_one_value_is_that_value_to_the_last_bit(
    weights: list[float], value: float, other: float
) -> None:
    values = [value if weight else other for weight in weights]
    assert weighted_mean(values, weights) == value


@given(st.lists(st.floats(min_value=-1e6, max_value=1e6, width=32), min_size=1, max_size=40))
def test_what_some_values_come_to_is_possible_in_single_precision_too(values: list[float]) -> None:
    right = distribution(values)
    for rounded in (float, lambda number: struct.unpack("f", struct.pack("f", number))[0]):
        parts = (len(values), rounded(right.sum), right.min, right.max, rounded(right.m2))
        assert partial(parts).mean == parts[1] / len(values)


@pytest.mark.parametrize(
    "parts",
    [
        (2, -100.0, 5.0, 15.0, 50.0),
        (2, 31.0, 5.0, 15.0, 50.0),
        (1, -4.0, 1.0, 2.0, 0.0),
        (2, -1e-9, 0.0, 1e-5, 0.0),
    ],
)
def test_a_partial_that_no_values_come_to_is_refused(parts: tuple[float, ...]) -> None:
    with pytest.raises(Rejected):
        partial(parts)


def test_a_plain_double_gives_a_mean_and_no_spread() -> None:
    plain = Distribution(count=1, sum=3.0, min=3.0, max=3.0, plain=True)
    assert (plain.mean, plain.std, plain.extremes) == (3.0, None, None)
    assert Distribution.merged([plain, distribution([1.0])]).extremes is None


@given(st.lists(st.integers(1, 60)))
def test_ranges_are_the_set_of_their_members(members: list[int]) -> None:
    ranges = Ranges()
    for member in members:
        ranges.add(member)
    assert [number for number in range(62) if number in ranges] == sorted(set(members))
    holes = {number for first, last in ranges.gaps(1, 60) for number in range(first, last + 1)}
    assert holes == set(range(1, 61)) - set(members)
    assert all(first <= last for first, last in ranges.bounds)
    assert all(low[1] + 1 < high[0] for low, high in zip(ranges.bounds, ranges.bounds[1:], strict=False))
