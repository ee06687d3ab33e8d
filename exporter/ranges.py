"""A set of integers kept as its ranges: the watermark and the holes of a source, the steps of an attempt."""

from bisect import bisect_right
from collections.abc import Iterator

import msgspec


class Ranges(msgspec.Struct):
    """Sorted, disjoint, non-adjacent closed ranges. 1, 2, 3, 7 is `[[1, 3], [7, 7]]`, and stays two
    ranges however long the run: memory grows with the holes, not with the members."""

    bounds: list[list[int]] = msgspec.field(default_factory=list)

    def __contains__(self, member: int) -> bool:
        at = bisect_right(self.bounds, member, key=lambda bound: bound[0]) - 1
        return at >= 0 and member <= self.bounds[at][1]

    def add(self, member: int) -> None:
        self.add_range(member, member)

    def add_range(self, first: int, last: int) -> None:
        """Add first..last, merging with what it touches. An empty range adds nothing."""
        if last < first:
            return
        left = bisect_right(self.bounds, first - 1, key=lambda bound: bound[0]) - 1
        if left < 0 or self.bounds[left][1] < first - 1:
            left += 1
        right = left
        while right < len(self.bounds) and self.bounds[right][0] <= last + 1:
            first = min(first, self.bounds[right][0])
            last = max(last, self.bounds[right][1])
            right += 1
        self.bounds[left:right] = [[first, last]]

    @property
    def last(self) -> int:
        """The largest member; 0 of an empty set."""
        return self.bounds[-1][1] if self.bounds else 0

    def gaps(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """The ranges within first..last that are not members."""
        for low, high in self.bounds:
            if high < first:
                continue
            if low > last:
                break
            if low > first:
                yield first, low - 1
            first = high + 1
        if first <= last:
            yield first, last
