"""The sample account: the conservation law at every instant, the budget rules, and nothing lost or counted twice."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from runtime.account import SampleAccount, ticket_budget
from runtime.telemetry.schema import OUTCOMES


def test_budget_is_floored_over_all_steps_of_a_version() -> None:
    assert ticket_budget(required_samples=32, staleness_threshold=0.5, steps_per_version=4) == 192
    assert ticket_budget(required_samples=3, staleness_threshold=0.5, steps_per_version=1) == 4
    assert ticket_budget(required_samples=8, staleness_threshold=0.0, steps_per_version=2) == 16


def acquire_while_possible(account: SampleAccount, wanted: int) -> list[int]:
    tickets: list[int] = []
    while len(tickets) < wanted and account.pause() is None:
        tickets.append(account.acquire())
    return tickets


def test_c85_a_full_queue_makes_the_surplus_wait_and_drops_nothing() -> None:
    account = SampleAccount(budget=100, capacity=100)
    tickets = acquire_while_possible(account, 120)
    for ticket in tickets:
        assert account.put(ticket)
    view = account.view()
    assert len(tickets) == 100
    assert account.pause() == "paused_staleness"
    assert (view.queued, view.in_flight, view.dropped_queue_full, view.fed) == (100, 0, 0, 100)


def test_c85_samples_left_over_by_a_batch_are_used_by_the_next_one() -> None:
    account = SampleAccount(budget=100, capacity=100)
    for ticket in acquire_while_possible(account, 10):
        account.put(ticket)
    assert account.take(4) == [0, 1, 2, 3]
    assert account.ready == 6
    assert account.view().queued == 10, "a sample stays queued until the step that consumed it has ended"
    account.settle([0, 1, 2, 3], "trained")
    assert account.view().queued == 6
    assert account.take(8) == [4, 5, 6, 7, 8, 9]


def test_one_failed_sample_at_threshold_zero_does_not_deadlock() -> None:
    account = SampleAccount(budget=4, capacity=4)
    tickets = acquire_while_possible(account, 5)
    assert len(tickets) == 4
    assert account.discard(tickets[1], "failed")
    replacement = acquire_while_possible(account, 5)
    assert replacement == [4]
    for ticket in (0, 2, 3, 4):
        account.put(ticket)
    assert account.take(4) == [0, 2, 3, 4]


def test_filtered_sample_was_consumed_and_is_not_refunded() -> None:
    account = SampleAccount(budget=2, capacity=2)
    for ticket in acquire_while_possible(account, 2):
        account.put(ticket)
    account.settle(account.take(2), "filtered_zero_variance")
    assert account.pause() == "paused_staleness"
    account.sync()
    assert account.pause() is None
    assert account.used == 0


def test_sync_leaves_what_is_in_flight_and_queued_in_the_budget() -> None:
    account = SampleAccount(budget=192, capacity=192)
    tickets = acquire_while_possible(account, 150)
    for ticket in tickets[:140]:
        account.put(ticket)
    account.settle(account.take(128), "trained")
    account.sync()
    assert account.used == 22
    assert len(acquire_while_possible(account, 1000)) == 170


def test_queue_smaller_than_the_budget_pauses_until_there_is_room() -> None:
    account = SampleAccount(budget=10, capacity=3)
    for ticket in acquire_while_possible(account, 3):
        account.put(ticket)
    assert account.pause() == "paused_queue_full"
    taken = account.take(2)
    assert account.pause() == "paused_queue_full"
    account.settle(taken, "trained")
    assert account.pause() is None


def test_first_result_of_a_reissued_prompt_wins() -> None:
    account = SampleAccount(budget=4, capacity=4)
    ticket = account.acquire()
    account.reissue(ticket)
    assert account.put(ticket)
    assert not account.put(ticket)
    view = account.view()
    assert (view.reissued, view.duplicate_results, view.generated, view.queued) == (1, 1, 1, 1)


def test_ticket_asked_for_during_a_pause_is_a_bug() -> None:
    account = SampleAccount(budget=1, capacity=1)
    account.acquire()
    with pytest.raises(AssertionError):
        account.acquire()


class AccountMachine(RuleBasedStateMachine):
    """Any order of calls, against a model that only knows where each ticket is."""

    def __init__(self) -> None:
        super().__init__()
        self.account = SampleAccount(budget=12, capacity=9)
        self.place: dict[int, str] = {}
        self.since_sync = 0
        self.generated = 0

    def at(self, place: str) -> list[int]:
        return [ticket for ticket, where in self.place.items() if where == place]

    @precondition(lambda self: self.account.pause() is None)
    @rule()
    def acquire(self) -> None:
        ticket = self.account.acquire()
        assert ticket not in self.place
        self.place[ticket] = "in_flight"
        self.since_sync += 1

    @precondition(lambda self: self.place)
    @rule(data=st.data())
    def put(self, data: st.DataObject) -> None:
        ticket = data.draw(st.sampled_from(sorted(self.place)))
        first = self.place[ticket] == "in_flight"
        assert self.account.put(ticket) == first
        if first:
            self.place[ticket] = "ready"
            self.generated += 1

    @rule(count=st.integers(0, 5))
    def take(self, count: int) -> None:
        taken = self.account.take(count)
        assert len(taken) == min(count, len(self.at("ready")))
        for ticket in taken:
            assert self.place[ticket] == "ready"
            self.place[ticket] = "taken"

    @precondition(lambda self: self.at("taken"))
    @rule(data=st.data(), outcome=st.sampled_from(["trained", "filtered_zero_variance"]))
    def settle(self, data: st.DataObject, outcome: str) -> None:
        ticket = data.draw(st.sampled_from(self.at("taken")))
        self.account.settle([ticket], "trained" if outcome == "trained" else "filtered_zero_variance")
        self.place[ticket] = outcome

    @precondition(lambda self: self.place)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        ticket = data.draw(st.sampled_from(sorted(self.place)))
        open_ticket = self.place[ticket] in ("in_flight", "ready")
        assert self.account.discard(ticket, "failed") == open_ticket
        if open_ticket:
            self.place[ticket] = "failed"
            self.since_sync -= 1

    @rule()
    def sync(self) -> None:
        self.account.sync()
        self.since_sync = sum(where in ("in_flight", "ready", "taken") for where in self.place.values())

    @rule()
    def close(self) -> None:
        self.account.close()
        for ticket, where in self.place.items():
            if where in ("in_flight", "ready", "taken"):
                self.place[ticket] = "unused_at_end"
        self.since_sync = 0

    @invariant()
    def nothing_is_lost(self) -> None:
        view = self.account.view()._asdict()
        assert view["fed"] == sum(view[o] for o in OUTCOMES) + view["in_flight"] + view["queued"]
        for outcome in OUTCOMES:
            assert view[outcome] == len(self.at(outcome))
        assert view["in_flight"] == len(self.at("in_flight"))
        assert view["queued"] == len(self.at("ready")) + len(self.at("taken"))
        assert view["generated"] == self.generated

    @invariant()
    def budget_and_capacity_hold(self) -> None:
        view = self.account.view()
        assert view.budget_used == self.since_sync
        assert view.in_flight + view.queued <= view.budget_used <= view.budget_limit
        assert view.in_flight + view.queued <= view.capacity


AccountMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAccountMachine = AccountMachine.TestCase
