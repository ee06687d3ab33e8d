"""The generated cohort: keyed by the oldest token, closed when no open ticket can add to it."""

from hypothesis import given
from hypothesis import strategies as st

from runtime.generated_cohort import GeneratedCohorts
from runtime.types import Prompt, Response, Sample, Ticket


def sample(ticket_id: int, versions: list[int], reward: float = 0.0) -> Sample:
    response = Response(index=0, token_ids=[1] * len(versions), versions=versions, reward=reward)
    ticket = Ticket(ticket_id=ticket_id, prompt=Prompt(prompt_id="p", text="", answer=""))
    return Sample(ticket=ticket, prompt_token_ids=[1], responses=[response], rollouter="0")


def test_straggler_keeps_its_version_open_over_later_syncs() -> None:
    cohorts = GeneratedCohorts()
    for ticket_id in (0, 1):
        cohorts.issued(ticket_id)
    cohorts.finished(sample(0, [0]), 10)
    for version in (1, 2):
        cohorts.synced(version)
        assert cohorts.pop_closed() == []
    cohorts.finished(sample(1, [0, 1, 2]), 20)
    (closed,) = cohorts.pop_closed()
    assert (closed.version, closed.sample_count, closed.start_ns) == (0, 2, 10)
    assert cohorts.pop_closed() == []


def test_failed_ticket_keeps_nothing_open() -> None:
    cohorts = GeneratedCohorts()
    cohorts.issued(0)
    cohorts.issued(1)
    cohorts.finished(sample(0, [0]), 1)
    cohorts.synced(1)
    cohorts.failed(1)
    assert [cohort.version for cohort in cohorts.pop_closed()] == [0]


@given(st.data())
def test_closed_cohort_holds_all_responses_that_its_version_will_ever_have(data: st.DataObject) -> None:
    cohorts = GeneratedCohorts()
    open_tickets: list[tuple[int, int]] = []
    expected: dict[int, int] = {}
    seen: dict[int, int] = {}
    synced = ticket_id = 0
    for action in data.draw(st.lists(st.sampled_from(["issue", "finish", "sync"]), max_size=60)):
        if action == "issue":
            cohorts.issued(ticket_id)
            open_tickets.append((ticket_id, synced))
            ticket_id += 1
        elif action == "finish" and open_tickets:
            ticket, stamp = open_tickets.pop(data.draw(st.integers(0, len(open_tickets) - 1)))
            # A rollouter may serve one version more than the queue has heard of.
            version = data.draw(st.integers(stamp, synced + 1))
            assert version not in seen, "the cohort was closed too early"
            cohorts.finished(sample(ticket, [version]), 0)
            expected[version] = expected.get(version, 0) + 1
        elif action == "sync":
            synced += 1
            cohorts.synced(synced)
        for cohort in cohorts.pop_closed():
            seen[cohort.version] = cohort.sample_count
    for cohort in cohorts.pop_all():
        seen[cohort.version] = cohort.sample_count
    assert seen == expected
