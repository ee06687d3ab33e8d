"""The lives of a run: who begins the next one, and what becomes of the windows of the one before."""

from collections.abc import Callable

import pytest

from tests.exporter.conftest import StartedExporter, StartExporter
from tests.wire import Emitter, Scrape, post_raw, scrape_until


@pytest.fixture(scope="module")
def exporter(start_module_exporter: StartExporter) -> StartedExporter:
    """One for all tests: each has a run of its own."""
    return start_module_exporter("--grace", "1")


def emitter(exporter: StartedExporter, run: str, source: str, role: str = "trainer") -> Emitter:
    return Emitter(exporter.otlp, run=run, source=source, role=role)


def sealed(run: str, attempt: int, version: int) -> Callable[[Scrape], bool]:
    """Whether a version is on the page."""
    return lambda page: (
        page.value("asyncrl_version_complete", run=run, attempt=attempt, param_version=version) is not None
    )


def incomplete(page: Scrape, run: str) -> dict[str, float]:
    """How many windows were sealed incomplete, per reason."""
    counts = page.by_label("asyncrl_versions_incomplete_total", "reason", run=run)
    return {reason: count for reason, count in counts.items() if count}


@pytest.mark.parametrize("together", [False, True])
def test_a_window_that_waits_for_nothing_is_what_it_is_though_the_next_life_comes_in_the_same_request(
    exporter: StartedExporter, together: bool
) -> None:
    run = f"batched {together}"
    old, ended, new = (emitter(exporter, run, source) for source in ("old", "ended", "new"))
    said = [
        old.request(old.weight_sync(0, 0), *old.window(1, [{"policy_loss": 1.0}])),
        # The second life ends in the midst of version 2; the third begins with what was published last.
        ended.request(ended.weight_sync(1, 0), ended.train_step(2, 2), ended.run_end(1, "failed")),
        new.request(new.weight_sync(1, 0), *new.window(2, [{"policy_loss": 2.0}])),
    ]
    if together:
        for request in said[1:]:
            said[0].MergeFrom(request)
        del said[1:]
    for request in said:
        assert post_raw(exporter.otlp, request.SerializeToString()).rejected == 0
    page = scrape_until(exporter.metrics, sealed(run, 3, 2))
    assert {
        (attempt, version): page.value(
            "asyncrl_version_complete", run=run, attempt=attempt, param_version=version
        )
        for attempt, version in ((1, 1), (2, 2), (3, 2))
    } == {(1, 1): 1, (2, 2): 0, (3, 2): 1}
    assert incomplete(page, run) == {"run_end": 1}


def test_a_trainer_whose_steps_are_in_a_window_that_another_published_is_no_new_one(
    exporter: StartedExporter,
) -> None:
    run = "two ranks"
    rank0, rank1 = emitter(exporter, run, "rank0"), emitter(exporter, run, "rank1")
    assert rank1.post(rank1.train_step(1, 1)).rejected == 0
    assert rank0.post(rank0.train_step(1, 2), rank0.weight_sync(1, 2)).rejected == 0
    assert "late (sealed)" in rank1.post(rank1.weight_sync(1, 2)).reason
    assert rank0.post(rank0.train_step(2, 3), rank0.weight_sync(2, 1)).rejected == 0
    page = scrape_until(exporter.metrics, sealed(run, 1, 2))
    assert page.value("asyncrl_attempts_inferred_total", run=run) == 0
    assert incomplete(page, run) == {}


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2)])
def test_the_initial_sync_of_a_restarted_trainer_tells_a_new_life_though_its_steps_come_first(
    exporter: StartedExporter, order: tuple[int, ...]
) -> None:
    run = f"restarted {order}"
    old, new = emitter(exporter, run, "old"), emitter(exporter, run, "new")
    assert old.post(old.weight_sync(0, 0), *old.window(1, [{}])).rejected == 0
    said = [new.weight_sync(1, 0), new.train_step(2, 2), new.weight_sync(2, 1)]
    for place in order:
        new.post(said[place])
    page = scrape_until(exporter.metrics, lambda page: page.value("asyncrl_run_attempt", run=run) == 2)
    assert page.value("asyncrl_attempts_inferred_total", run=run) == 1


@pytest.mark.parametrize("closing", ["run_end", "next attempt", "run_end first"])
def test_a_rollouter_window_of_a_version_that_nobody_made_is_late_when_its_attempt_is_over(
    exporter: StartedExporter, closing: str
) -> None:
    run = f"unmade {closing}"
    trainer, rollouter = emitter(exporter, run, "t0"), emitter(exporter, run, "r0", "rollouter")
    assert trainer.post(*trainer.window(1, [{}])).rejected == 0
    resumed = Emitter(exporter.otlp, run=run, source="t1", attempt=2)
    over = (
        (resumed, resumed.weight_sync(1, 0)) if closing == "next attempt" else (trainer, trainer.run_end(1))
    )
    unmade = (rollouter, rollouter.rollouter_window(9, "0", {"generating": 1.0}))
    for who, span in (over, unmade) if closing == "run_end first" else (unmade, over):
        who.post(span)

    def counted(page: Scrape) -> bool:
        return page.value("asyncrl_late_records_total", run=run, reason="attempt_over") == 1

    scrape_until(exporter.metrics, counted)
