"""The sample account: which ticket is where, and who may have a new one. Pure; the queue actor owns the only one.

            acquire            put             take           settle
    (budget) ----> in flight ----> ready ----> taken ----> trained | filtered_zero_variance
                       |             |
                       +-- discard --+--> failed | dropped_* (refunded)         close --> unused_at_end

`queued` = ready + taken: a sample stays queued until the step that consumed it has ended. At every instant

    fed = trained + filtered_zero_variance + dropped_stale + dropped_queue_full + dropped_rollback + failed
          + unused_at_end + in_flight + queued

Example: 32 samples a step, 4 steps a version, threshold 0.5: 192 tickets between two syncs. 150 acquired, 128 of
them consumed, then a sync: used = 22, so 170 more may be acquired before the next one.
"""

import math
from collections import Counter, deque
from collections.abc import Iterable
from typing import Literal, NamedTuple

from runtime.telemetry.schema import OUTCOMES

Discarded = Literal["dropped_stale", "dropped_queue_full", "dropped_rollback", "failed"]
Consumed = Literal["trained", "filtered_zero_variance"]
Pause = Literal["paused_staleness", "paused_queue_full"]


def ticket_budget(*, required_samples: int, staleness_threshold: float, steps_per_version: int) -> int:
    """Tickets that may be acquired between two syncs."""
    return math.floor(required_samples * (1 + staleness_threshold) * steps_per_version)


class AccountView(NamedTuple):
    """The account at one instant: what telemetry reads, one tuple per collection."""

    fed: int
    generated: int
    """First results that came in."""
    trained: int
    filtered_zero_variance: int
    dropped_stale: int
    dropped_queue_full: int
    dropped_rollback: int
    failed: int
    unused_at_end: int
    in_flight: int
    queued: int
    reissued: int
    duplicate_results: int
    budget_used: int
    budget_limit: int
    capacity: int


class SampleAccount:
    """Tickets by number, 0, 1, 2, ... in the order of acquisition. Invariant: in_flight + queued <= used."""

    def __init__(self, *, budget: int, capacity: int) -> None:
        self.budget = budget
        self.capacity = capacity
        self.used = 0
        self._fed = 0
        self._generated = 0
        self._reissued = 0
        self._duplicates = 0
        self._outcomes: Counter[str] = Counter()
        self._in_flight: set[int] = set()
        self._ready: deque[int] = deque()
        self._taken: set[int] = set()

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    @property
    def ready(self) -> int:
        """Samples that a step can take."""
        return len(self._ready)

    @property
    def queued(self) -> int:
        return len(self._ready) + len(self._taken)

    def pause(self) -> Pause | None:
        """Why no ticket can be had now; None if one can. The budget is named first when both are used up."""
        if self.used >= self.budget:
            return "paused_staleness"
        if self.in_flight + self.queued >= self.capacity:
            return "paused_queue_full"
        return None

    @property
    def room(self) -> int:
        """Tickets that can be had now."""
        return max(0, min(self.budget - self.used, self.capacity - self.in_flight - self.queued))

    def acquire(self) -> int:
        """A new ticket. In flight counts against the capacity, so that a put never finds the queue full."""
        assert self.pause() is None, "acquire() asked for while pause() names a reason"
        ticket_id = self._fed
        self._fed += 1
        self.used += 1
        self._in_flight.add(ticket_id)
        return ticket_id

    def reissue(self, ticket_id: int) -> None:
        """The prompt is generated again under the same ticket; the first result will win."""
        assert ticket_id in self._in_flight
        self._reissued += 1

    def put(self, ticket_id: int) -> bool:
        """True if this is the ticket's first result; a later one is counted as a duplicate and must be ignored."""
        if ticket_id not in self._in_flight:
            self._duplicates += 1
            return False
        self._in_flight.remove(ticket_id)
        self._ready.append(ticket_id)
        self._generated += 1
        return True

    def take(self, count: int) -> list[int]:
        """Up to `count` tickets for a train step, in the order in which their results came."""
        taken = [self._ready.popleft() for _ in range(min(count, len(self._ready)))]
        self._taken.update(taken)
        return taken

    def settle(self, ticket_ids: Iterable[int], outcome: Consumed) -> None:
        """The step that took these tickets has ended. They were consumed: nothing is refunded before the sync."""
        for ticket_id in ticket_ids:
            self._taken.remove(ticket_id)
            self._outcomes[outcome] += 1

    def discard(self, ticket_id: int, outcome: Discarded) -> bool:
        """End a ticket that no step will consume and refund it at once. False if it had ended already."""
        if ticket_id in self._in_flight:
            self._in_flight.remove(ticket_id)
        elif ticket_id in self._ready:
            self._ready.remove(ticket_id)
        else:
            return False
        self._outcomes[outcome] += 1
        self.used -= 1
        return True

    def sync(self) -> None:
        """New weights are out: what is still in flight or queued is all that counts against the new budget."""
        self.used = self.in_flight + self.queued

    def close(self) -> None:
        """The run is over: what no step has consumed is unused."""
        self._outcomes["unused_at_end"] += self.in_flight + self.queued
        self._in_flight.clear()
        self._ready.clear()
        self._taken.clear()
        self.sync()

    def view(self) -> AccountView:
        return AccountView(
            fed=self._fed,
            generated=self._generated,
            **{outcome: self._outcomes[outcome] for outcome in OUTCOMES},
            in_flight=self.in_flight,
            queued=self.queued,
            reissued=self._reissued,
            duplicate_results=self._duplicates,
            budget_used=self.used,
            budget_limit=self.budget,
            capacity=self.capacity,
        )
