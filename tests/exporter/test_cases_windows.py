"""Cases from the field: what a window holds, how stale it is, and how its time was spent."""

import math
from collections.abc import Mapping
from typing import Any

import pytest

from tests.exporter.conftest import StartedExporter
from tests.page import check_page
from tests.wire import Emitter, Scrape, scrape_until

NAN = math.nan


def when_sealed(exporter: StartedExporter, version: int, **labels: Any) -> Scrape:
    """The page once `version` is sealed."""
    wanted: dict[str, Any] = {"run": "r", "attempt": 1, "param_version": version} | labels
    page = scrape_until(
        exporter.metrics, lambda page: page.value("asyncrl_version_complete", **wanted) is not None
    )
    check_page(page.text, page.content_type)
    return page


def of_versions(page: Scrape, family: str, **labels: Any) -> dict[int, float]:
    by_version = page.by_label(f"asyncrl_version_{family}", "param_version", **{"run": "r", **labels})
    return {int(version): value for version, value in sorted(by_version.items(), key=lambda one: int(one[0]))}


def run_steps(trainer: Emitter, first: int, last: int, steps_per_version: int, *, window: int) -> None:
    """Steps first..last whose loss is their number, and the syncs they trigger; a request for each record."""
    for step in range(first, last + 1):
        span = trainer.train_step(window, step, values={"policy_loss": float(step)}, token_count=1)
        assert trainer.post(span).rejected == 0
        if step % steps_per_version == 0:
            assert trainer.post(trainer.weight_sync(window, steps_per_version)).rejected == 0
            window += 1


def test_c01_a_version_holds_the_steps_between_its_boundaries_and_the_rest_is_flushed_at_the_end(
    exporter: StartedExporter,
) -> None:
    trainer = Emitter(exporter.otlp)
    run_steps(trainer, 1, 13, 4, window=1)
    assert trainer.post(trainer.run_end(3, "completed")).rejected == 0
    page = when_sealed(exporter, 4)
    assert of_versions(page, "policy_loss") == {1: 2.5, 2: 6.5, 3: 10.5, 4: 13.0}
    assert of_versions(page, "train_steps") == {1: 4, 2: 4, 3: 4, 4: 1}
    assert of_versions(page, "complete") == {1: 1, 2: 1, 3: 1, 4: 0}
    assert page.value("asyncrl_policy_loss", run="r") == 10.5  # of the newest version that is published
    assert page.value("asyncrl_param_version", run="r") == 3


def test_c01_with_a_sync_after_every_step_each_version_is_its_step(exporter: StartedExporter) -> None:
    run_steps(Emitter(exporter.otlp), 1, 12, 1, window=1)
    page = when_sealed(exporter, 12)
    assert of_versions(page, "policy_loss") == {version: float(version) for version in range(1, 13)}
    assert set(of_versions(page, "train_steps").values()) == {1.0}


def test_c03_staleness_counts_from_the_oldest_token_to_the_version_at_training(
    exporter: StartedExporter,
) -> None:
    trainer = Emitter(exporter.otlp)
    # Dispatched under 5, finished under 6, trained while 7 is published: by the step of window 8.
    values = {"staleness": [1, 2.0, 2.0, 2.0, 0.0], "response_span": [1, 1.0, 1.0, 1.0, 0.0]}
    counts = {
        "asyncrl.buckets.staleness": [0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0],
        "asyncrl.buckets.response_span": [0, 1, 0, 0, 0, 0, 0],
    }
    step = trainer.train_step(8, 29, values=values, sample_count=1, attributes=counts)
    assert trainer.post(step, trainer.weight_sync(8, 1)).rejected == 0
    page = when_sealed(exporter, 8)
    assert page.value("asyncrl_staleness_max_versions", run="r") == 2.0
    assert page.value("asyncrl_response_span_mean_versions", run="r") == 1.0
    assert page.value("asyncrl_staleness_versions_bucket", run="r", le="1.0") == 0
    assert page.value("asyncrl_staleness_versions_bucket", run="r", le="2.0") == 1
    assert of_versions(page, "staleness_max_versions") == {8: 2.0}


@pytest.mark.parametrize("steps_per_version", [1, 4])
def test_c05_a_resume_goes_on_with_the_next_step_and_version(
    exporter: StartedExporter, steps_per_version: int
) -> None:
    checkpoint = 100
    before = Emitter(exporter.otlp, source="t0")
    last = checkpoint * steps_per_version
    run_steps(before, last - steps_per_version + 1, last, steps_per_version, window=checkpoint)
    resumed = Emitter(exporter.otlp, source="t1", attempt=2)
    assert resumed.post(resumed.weight_sync(checkpoint, 0)).rejected == 0
    run_steps(resumed, last + 1, last + 3 * steps_per_version, steps_per_version, window=checkpoint + 1)
    page = when_sealed(exporter, checkpoint + 3, attempt=2)
    middle = (steps_per_version - 1) / 2
    assert of_versions(page, "policy_loss", attempt=2) == {
        version: (version - 1) * steps_per_version + 1 + middle for version in (101, 102, 103)
    }
    assert set(of_versions(page, "complete", attempt=2).values()) == {1.0}
    assert set(of_versions(page, "train_steps", attempt=2).values()) == {float(steps_per_version)}
    assert page.value("asyncrl_train_steps_total", run="r") == 4 * steps_per_version
    assert page.value("asyncrl_param_version", run="r") == 103


PAUSES: Mapping[str, tuple[dict[str, float], float, float]] = {
    "no pause": ({"generating": 60.0}, 0.0, 60.0),
    "three pauses": ({"generating": 70.0, "paused_staleness": 30.0}, 0.3, 70.0),
    "two pauses that overlap": (
        {"generating": 80.0, "paused_staleness": 15.0, "paused_queue_full": 5.0},
        0.2,
        80.0,
    ),
    "nothing served": ({"paused_staleness": 100.0}, 1.0, 0.0),
}


@pytest.mark.parametrize("kind", PAUSES)
def test_c09_idle_is_all_time_that_is_not_active(exporter: StartedExporter, kind: str) -> None:
    states, idle_ratio, active_seconds = PAUSES[kind]
    trainer, rollouter = Emitter(exporter.otlp), Emitter(exporter.otlp, role="rollouter", source="r0")
    # A window full of pauses before it leaves nothing behind.
    paused = rollouter.rollouter_window(1, "0", {"generating": 40.0, "paused_staleness": 60.0})
    assert rollouter.post(paused, rollouter.rollouter_window(2, "0", states)).rejected == 0
    for version in (1, 2):
        step = trainer.train_step(version, version)
        assert trainer.post(step, trainer.weight_sync(version, 1, ["0"])).rejected == 0
    page = when_sealed(exporter, 2)
    at = {"run": "r", "rollouter": "0"}
    assert of_versions(page, "rollouter_idle_ratio", rollouter="0") == {1: 0.6, 2: idle_ratio}
    assert page.value("asyncrl_rollouter_idle_ratio", **at) == idle_ratio
    assert page.value("asyncrl_rollouter_active_seconds", **at) == active_seconds
    assert page.value("asyncrl_rollouter_version_seconds", **at) == sum(states.values())


def test_c08_times_that_do_not_add_up_are_refused_not_clamped(exporter: StartedExporter) -> None:
    trainer, rollouter = Emitter(exporter.otlp), Emitter(exporter.otlp, role="rollouter", source="r0")
    more_active_than_time = rollouter.rollouter_window(
        1, "0", {"generating": 120.0}, attributes={"asyncrl.version_time_seconds": 60.0}
    )
    answer = rollouter.post(more_active_than_time)
    assert answer.rejected == 1
    assert "state_sum" in answer.reason
    negative = rollouter.rollouter_window(1, "0", {"generating": 120.0, "paused_staleness": -60.0})
    assert rollouter.post(negative).rejected == 1
    assert trainer.post(trainer.train_step(1, 1), trainer.weight_sync(1, 1)).rejected == 0
    page = when_sealed(exporter, 1)
    assert page.value("asyncrl_rollouter_idle_ratio", run="r", rollouter=0) is None
    assert page.value("asyncrl_rejected_records_total", run="r", reason="state_sum") == 1
    assert page.value("asyncrl_rejected_records_total", run="r", reason="bad_value") == 1


def test_a_bad_duration_costs_a_sync_no_more_than_itself(exporter: StartedExporter) -> None:
    phases = {"asyncrl.phase_seconds.wait": NAN, "asyncrl.phase_seconds.load": 2.0}
    syncs: Mapping[str, dict[str, Any]] = {
        "phase": {"attributes": phases, "states": {"training": 3.0, "waiting_samples": 1.0}},
        "negative state": {"states": {"training": 3.0, "waiting_samples": -1.0}},
        "endless state": {"states": {"training": 3.0, "waiting_samples": 1e8}},
    }
    for run, sync in syncs.items():
        trainer = Emitter(exporter.otlp, run=run, source=run)
        step = trainer.train_step(1, 1, values={"policy_loss": 2.0})
        assert trainer.post(step, trainer.weight_sync(1, 1, **sync)).rejected == 0
    for run in syncs:
        page = when_sealed(exporter, 1, run=run)
        assert page.value("asyncrl_version_complete", run=run, attempt=1, param_version=1) == 1
        assert page.value("asyncrl_policy_loss", run=run) == 2.0
        assert page.value("asyncrl_rejected_records_total", run=run, reason="bad_value") == 1
    assert page.by_label("asyncrl_trainer_idle_ratio", "run") == {"phase": 0.25}
    assert page.by_label("asyncrl_weight_sync_phase_seconds_total", "phase", run="phase") == {
        "wait": 0.0,
        "transfer": 0.0,
        "load": 2.0,
    }


def test_c14_a_clock_that_steps_back_is_counted_and_costs_neither_durations_nor_the_page(
    exporter: StartedExporter,
) -> None:
    trainer, rollouter = Emitter(exporter.otlp), Emitter(exporter.otlp, role="rollouter", source="r0")
    window = rollouter.rollouter_window(
        1, "0", {"generating": 6.0, "paused_staleness": 2.0}, start=1000.0, end=995.0
    )
    assert rollouter.post(window).rejected == 0  # its durations are of a monotonic clock: kept
    assert trainer.post(trainer.train_step(1, 1), trainer.weight_sync(1, 1, ["0"])).rejected == 0
    page = when_sealed(exporter, 1)
    assert page.value("asyncrl_rejected_records_total", run="r", reason="clock") == 1
    assert page.value("asyncrl_rollouter_idle_ratio", run="r", rollouter=0) == 0.25
    assert page.value("asyncrl_rollouter_version_seconds", run="r", rollouter=0) == 8.0


def test_c14_hosts_whose_clocks_differ_share_their_versions(exporter: StartedExporter) -> None:
    trainer = Emitter(exporter.otlp)
    for slot, skew in (("ahead", 3.0), ("behind", -3.0)):
        rollouter = Emitter(exporter.otlp, role="rollouter", source=slot)
        rollouter.now += skew
        assert rollouter.post(rollouter.rollouter_window(1, slot, {"generating": 1.0})).rejected == 0
    sync = trainer.weight_sync(1, 1, ["ahead", "behind"])
    assert trainer.post(trainer.train_step(1, 1), sync).rejected == 0
    page = when_sealed(exporter, 1)
    assert of_versions(page, "complete") == {1: 1.0}
    assert page.by_label("asyncrl_rollouter_idle_ratio", "rollouter", run="r") == {
        "ahead": 0.0,
        "behind": 0.0,
    }
    offset = page.by_label(
        "asyncrl_exporter_source_clock_offset_seconds", "rollouter", run="r", role="rollouter"
    )
    assert abs(offset["behind"] - offset["ahead"] - 6.0) < 3.0
