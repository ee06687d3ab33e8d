"""The queue of OTLP push in the journal: what is in it, in which order, and what takes it out."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exporter.journal import Journal
from exporter.push_queue import PushQueue, Waiting, read_depth
from exporter.state import Annex, Clocked, RunSummary, Scope, SealedWindow


def window(version: int, *, run: str = "r", attempt: int = 1, published: bool = True) -> SealedWindow:
    return SealedWindow(
        run=run,
        attempt=attempt,
        version=version,
        published=published,
        reasons=(),
        timestamp_ns=(attempt * 1000 + version) * 1_000_000,
        sealed_at=0.0,
        train_steps=1,
        sample_count=8,
        values=Scope(),
        trainer=Clocked(),
        rollouters={},
    )


def annex(version: int, *, attempt: int = 1, kind: str = "validation") -> Annex:
    return Annex(run="r", attempt=attempt, version=version, kind=kind, timestamp_ns=7, values=Scope())


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal.open(tmp_path)
    opened.pushing = True
    yield opened
    opened.close()


def front(journal: Journal, limit: int = 100) -> list[Waiting]:
    queue = PushQueue(journal.path)
    rows = queue.front(limit)
    queue.close()
    return rows


def test_what_is_stored_once_more_is_not_queued_once_more(journal: Journal) -> None:
    items: list[SealedWindow | Annex] = [window(1), annex(1)]
    journal.write([], items)
    queue = PushQueue(journal.path)
    queue.settle([row.id for row in queue.front(100)])
    journal.write([], items)  # as after a crash that kept the writer from knowing
    assert queue.front(100) == []
    queue.close()
    assert read_depth(journal.path) == (0, None)


def test_nothing_is_queued_when_nobody_pushes_nor_for_a_window_that_was_not_published(
    journal: Journal,
) -> None:
    journal.write([], [window(2, published=False)])
    journal.pushing = False
    journal.write([], [window(1)])
    assert read_depth(journal.path) == (0, None)


def test_an_annex_waits_for_the_window_of_its_version_and_has_its_time(journal: Journal) -> None:
    journal.write([], [annex(0), annex(2), annex(3)])
    assert [(row.item, row.time_ns) for row in front(journal)] == [(annex(0), 7)]
    journal.write([], [window(2)])
    times = {(type(row.item), row.item.version): row.time_ns for row in front(journal) if row.item}
    assert times == {
        (Annex, 0): 7,
        (Annex, 2): window(2).timestamp_ns,
        (SealedWindow, 2): window(2).timestamp_ns,
    }
    journal.write([], [window(3, attempt=2)])  # version 3 of the first attempt never had a window
    assert (annex(3), 7) in [(row.item, row.time_ns) for row in front(journal)]


def test_what_the_retention_took_is_still_taken_out_of_the_queue(journal: Journal) -> None:
    journal.write([], [window(1), window(1, run="alive")])
    gone = RunSummary(
        run="r", status="completed", attempt=1, param_version=1, sealed_version=1, ended_at=100.0
    )
    journal.write([], [gone])
    journal.expire(200.0)
    assert [row.item for row in front(journal)] == [None, window(1, run="alive")]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("seal"), st.sampled_from(["a", "b"])),
            st.tuples(st.just("send"), st.integers(1, 4)),
            st.tuples(st.just("crash"), st.just(0)),
        ),
        max_size=40,
    )
)
def test_every_version_leaves_once_and_in_order_whatever_comes_between(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str | int]]
) -> None:
    directory = tmp_path_factory.mktemp("journal")
    journal = Journal.open(directory)
    journal.pushing = True
    queue = PushQueue(journal.path)
    sealed = {"a": 0, "b": 0}
    sent: dict[str, list[int]] = {"a": [], "b": []}

    def send(limit: int) -> None:
        rows = queue.front(limit)
        for row in rows:
            assert row.item is not None
            sent[row.item.run].append(row.item.version)
        queue.settle([row.id for row in rows])

    for step, detail in [*steps, ("send", 100)]:
        if step == "seal":
            sealed[str(detail)] += 1
            journal.write([], [window(sealed[str(detail)], run=str(detail))])
        elif step == "send":
            send(int(detail))
        else:
            queue.close()
            journal.close()
            journal = Journal.open(directory)
            journal.pushing = True
            queue = PushQueue(journal.path)
    queue.close()
    journal.close()
    assert sent == {run: list(range(1, last + 1)) for run, last in sealed.items()}
