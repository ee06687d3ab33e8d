"""The lives of a run: who begins the next one, and what becomes of the windows of the one before."""

from collections.abc import Callable, Iterator

import pytest

from tests.exporter.conftest import StartedExporter, StartExporter
from tests.wire import Emitter, Scrape, post_raw, scrape_until


@pytest.fixture(scope="module")
def exporter(start_module_exporter: StartExporter) -> Iterator[StartedExporter]:
    """One for all tests: each has a run of its own."""
    yield start_module_exporter("--grace", "1")


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
