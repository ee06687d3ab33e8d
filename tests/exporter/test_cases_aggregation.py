"""Cases from the field: means are weighted, statistics are declared, missing is not zero, order does not matter."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
import requests

from runtime.telemetry.schema import BUCKETS
from tests.exporter.conftest import StartedExporter
from tests.page import check_page
from tests.wire import WATCHDOG_SECONDS, Emitter, Scrape, scrape_until

NAN, INFINITY = math.nan, math.inf
CLOCKS = ("timestamp_seconds", "asyncrl_exporter_", "process_")


def post_window(
    exporter: StartedExporter,
    run: str,
    steps: Iterable[tuple[int | None, Mapping[str, Any]]],
    **attributes: Any,
) -> int:
    """One window of `run`: a step per (sample_count, values). Returns how many records were refused."""
    trainer = Emitter(exporter.otlp, run=run, source=f"trainer of {run}")
    spans = [
        trainer.train_step(1, number, number, values=values, sample_count=count, **attributes)
        for number, (count, values) in enumerate(steps, 1)
    ]
    return trainer.post(*spans, trainer.weight_sync(1, len(spans))).rejected


def when_sealed(exporter: StartedExporter, *runs: str) -> Scrape:
    """The page once version 1 of every run is sealed."""
    page = scrape_until(
        exporter.metrics,
        lambda page: all(
            page.value("asyncrl_versions_sealed_total", run=run, complete="true") for run in runs
        ),
    )
    check_page(page.text, page.content_type)
    return page


def when_version_is_sealed(exporter: StartedExporter, version: int) -> Scrape:
    """The page once `version` of run r is in the version window."""
    return scrape_until(
        exporter.metrics,
        lambda page: page.value("asyncrl_version_complete", run="r", attempt=1, param_version=version),
    )


@pytest.mark.parametrize("metric", ["exact_match_ratio", "accuracy"], ids=["catalogue", "user"])
def test_c16_a_mean_is_weighted_by_its_samples(exporter: StartedExporter, metric: str) -> None:
    family = {"exact_match_ratio": "asyncrl_exact_match_ratio", "accuracy": "asyncrl_user_accuracy"}[metric]
    few, many = (10, {metric: 0.9}), (990, {metric: 0.1})
    hundred = [(10, {metric: 0.9})] + [(10, {metric: 0.1})] * 99
    shapes: dict[str, Sequence[tuple[int | None, Mapping[str, float]]]] = {
        "in order": [few, many],
        "reversed": [many, few],
        "in 100 parts": hundred,
        "with an empty part": [few, (0, {metric: 0.7}), many],
    }
    for run, steps in shapes.items():
        assert post_window(exporter, run, steps) == 0
    assert post_window(exporter, "missing", [(None, {metric: 0.5}), (3, {metric: 0.1})]) == 0
    page = when_sealed(exporter, *shapes, "missing")
    for run in shapes:
        assert page.value(family, run=run) == pytest.approx(0.108, abs=1e-12), run
    assert page.value(family, run="missing") == pytest.approx((0.5 + 3 * 0.1) / 4)  # a missing weight is 1


def test_c16_a_negative_weight_is_refused(exporter: StartedExporter) -> None:
    post_window(exporter, "r", [(-5, {"exact_match_ratio": 0.9}), (10, {"exact_match_ratio": 0.1})])
    page = when_sealed(exporter, "r")
    assert page.value("asyncrl_exact_match_ratio", run="r") == pytest.approx(0.1)
    refused = page.value("asyncrl_rejected_records_total", run="r", reason="bad_value")
    assert refused
    assert page.value("asyncrl_version_samples", run="r", attempt=1, param_version=1) == 10


def test_c17_nothing_is_inferred_from_a_name_and_an_empty_list_harms_nobody(
    exporter: StartedExporter,
) -> None:
    names = (
        "actor/minibatch_loss",
        "global_seqlen/minmax_diff",
        "determinism/mean",
        "terminal_reward",
        "assumption_rate",
        "average_max",
        "total_sum_avg/x",
    )
    empty: dict[str, Any] = {"x/max": []}
    steps = [(8, dict.fromkeys(names, value) | empty) for value in (1.0, 2.0, 3.0)]
    assert post_window(exporter, "r", steps, attributes={"asyncrl.statistic.x/max": "max"}) == 0
    page = when_sealed(exporter, "r")
    for name in names:
        assert page.value(f"asyncrl_user_{name.replace('/', '_')}", run="r") == 2.0, name
    assert page.by_label("asyncrl_user_x_max", "run") == {}


def test_c18_a_declared_statistic_is_kept_over_micro_steps(exporter: StartedExporter) -> None:
    declared = {"min": "min", "max": "max", "mean": "mean"}
    attributes = {f"asyncrl.statistic.timing_s/reward/{name}": name for name in declared}
    attributes["asyncrl.statistic.timing_s/step"] = "sum"
    steps = [
        (
            8,
            {
                "timing_s/reward/min": number,
                "timing_s/reward/max": number + 4.0,
                "timing_s/reward/mean": number + 2.0,
                "timing_s/step": 10.0 * number,
            },
        )
        for number in (1.0, 2.0, 3.0, 4.0)
    ]
    assert post_window(exporter, "r", steps, attributes=attributes) == 0
    page = when_sealed(exporter, "r")
    assert page.value("asyncrl_user_timing_s_reward_min", run="r") == 1.0
    assert page.value("asyncrl_user_timing_s_reward_max", run="r") == 8.0
    assert page.value("asyncrl_user_timing_s_reward_mean", run="r") == 4.5
    assert page.value("asyncrl_user_timing_s_step", run="r") == 100.0


@pytest.mark.parametrize("metric", ["policy_loss", "reward"])
def test_c20_a_nan_is_counted_and_left_out(exporter: StartedExporter, metric: str) -> None:
    family = {"policy_loss": "asyncrl_policy_loss", "reward": "asyncrl_reward_mean"}[metric]
    mixed = (0.5, NAN, NAN, 0.8, 0.6, 0.7)
    for run, values in {
        "mixed": mixed,
        "infinite": (0.5, INFINITY, -INFINITY, 0.8, 0.6, 0.7),
        "nothing good": (NAN, INFINITY, -INFINITY),
    }.items():
        assert post_window(exporter, run, [(8, {metric: value, "entropy": 1.0}) for value in values]) == 0
    page = when_sealed(exporter, "mixed", "infinite", "nothing good")
    for run in ("mixed", "infinite"):
        assert page.value(family, run=run) == pytest.approx(0.65)
        assert page.value("asyncrl_nonfinite_values_total", run=run, metric=metric) == 2
    assert page.value(family, run="nothing good") is None
    assert page.value("asyncrl_nonfinite_values_total", run="nothing good", metric=metric) == 3
    assert page.value("asyncrl_entropy", run="nothing good") == 1.0
    assert page.value("asyncrl_last_nonfinite_timestamp_seconds", run="nothing good")


def test_c21_a_version_without_samples_has_a_count_and_no_mean(exporter: StartedExporter) -> None:
    trainer = Emitter(exporter.otlp)
    good: dict[str, Any] = {
        "reward": [8.0, 4.0, 0.0, 1.0, 2.0],
        "exact_match_ratio": 0.5,
        "policy_loss": 0.25,
    }
    for version, (count, values) in enumerate([(8, good), (0, {}), (8, good)], 1):
        step = trainer.train_step(version, version, 1, values=values, sample_count=count)
        assert trainer.post(step, trainer.weight_sync(version, 1)).rejected == 0
        page = when_version_is_sealed(exporter, version)
        check_page(page.text, page.content_type)
        expected = 0.5 if count else None  # never the value of the version before
        assert page.value("asyncrl_reward_mean", run="r") == expected
        assert page.value("asyncrl_exact_match_ratio", run="r") == expected
    for name, value in [
        ("reward_mean", 0.5),
        ("reward_min", 0.0),
        ("reward_max", 1.0),
        ("policy_loss", 0.25),
    ]:
        assert page.by_label(f"asyncrl_version_{name}", "param_version", run="r") == {"1": value, "3": value}
    assert page.by_label("asyncrl_version_samples", "param_version", run="r") == {
        "1": 8.0,
        "2": 0.0,
        "3": 8.0,
    }
    assert not [name for (name, _), value in page.samples.items() if math.isnan(value)]


def test_what_no_record_says_is_absent_never_zero(exporter: StartedExporter) -> None:
    rollouter = Emitter(exporter.otlp, run="silent", role="rollouter", source="r0")
    rollouter.post(
        rollouter.rollouter_window(1, "0", {}), rollouter.rollouter_window(1, "1", {"draining": 0.0})
    )
    post_window(exporter, "silent", [(None, {}), (None, {})])
    post_window(exporter, "half", [(None, {}), (3, {})])
    page = when_sealed(exporter, "silent", "half")
    assert page.by_label("asyncrl_version_samples", "run") == {"half": 3}
    for family in ("active_seconds", "version_seconds"):
        assert page.by_label(f"asyncrl_rollouter_{family}", "rollouter", run="silent") == {"1": 0}
        assert page.by_label(f"asyncrl_trainer_{family}", "run") == {}
    assert page.by_label("asyncrl_rollouter_idle_ratio", "rollouter") == {}
    url = f"{exporter.metrics}/api/v1/runs/silent/versions"
    (version,) = requests.get(url, timeout=WATCHDOG_SECONDS).json()["versions"]
    assert version["sample_count"] is None
    assert version["rollouters"]["0"] == {"state_seconds": {}}
    head, line = requests.get(f"{url}?format=csv", timeout=WATCHDOG_SECONDS).text.splitlines()
    assert dict(zip(head.split(","), line.split(","), strict=True))["sample_count"] == ""


def test_c22_non_finite_input_poisons_neither_counter_nor_histogram(exporter: StartedExporter) -> None:
    queue = Emitter(exporter.otlp, role="queue", source="q0")
    for second, total in enumerate([1.0, NAN, 6.0, INFINITY], 1):
        point = queue.sum("asyncrl.samples.fed", total, start=1.0, at=1.0 + second)
        assert queue.post_metrics(point).rejected == (0 if math.isfinite(total) else 1)
    buckets = {1.0: [0] * 6 + [1] + [0] * 10, 2.0: [0] * 7 + [1] + [0] * 9}  # bounds ..., 1.0, 2.5, ...
    trainer = Emitter(exporter.otlp)
    spans = [
        trainer.train_step(
            1,
            number,
            values={"step": [1.0, seconds, seconds, seconds, 0.0], "policy_loss": loss},
            attributes={"asyncrl.buckets.step": buckets.get(seconds, [0] * 17)},
        )
        for number, (seconds, loss) in enumerate([(1.0, 0.5), (NAN, NAN), (INFINITY, NAN), (2.0, 0.7)], 1)
    ]
    trainer.post(*spans, trainer.weight_sync(1, 4))
    page = when_sealed(exporter, "r")
    assert page.value("asyncrl_samples_fed_total", run="r") == 6
    assert page.value("asyncrl_step_seconds_count", run="r") == 2
    assert page.value("asyncrl_step_seconds_sum", run="r") == 3.0
    assert page.value("asyncrl_nonfinite_values_total", run="r", metric="step") == 2
    assert page.value("asyncrl_policy_loss", run="r") == pytest.approx(0.6)
    queue.post_metrics(queue.sum("asyncrl.samples.fed", 9.0, start=1.0, at=9.0))
    trainer.post(trainer.train_step(2, 5, values={"policy_loss": 0.1}), trainer.weight_sync(2, 1))
    page = scrape_until(exporter.metrics, lambda page: page.value("asyncrl_policy_loss", run="r") == 0.1)
    assert page.value("asyncrl_samples_fed_total", run="r") == 9


def test_buckets_that_are_not_the_catalogues_cost_their_value_and_no_other_run(
    exporter: StartedExporter,
) -> None:
    bounds = len(BUCKETS["step"])
    for run, buckets in {
        "few": {"step": [1]},
        "many": {"step": [1] + [0] * (bounds + 1)},
        "of another metric": {"step": [1] + [0] * bounds, "policy_loss": [1]},
        "good": {"step": [1] + [0] * bounds},
    }.items():
        trainer = Emitter(exporter.otlp, run=run, source=run)
        step = trainer.train_step(
            1,
            1,
            values={"policy_loss": 0.5, "step": [1, 0.001, 0.001, 0.001, 0.0]},
            attributes={f"asyncrl.buckets.{name}": counts for name, counts in buckets.items()},
        )
        assert trainer.post(step, trainer.weight_sync(1, 1)).rejected == 0
    page = when_sealed(exporter, "good")
    assert page.by_label("asyncrl_step_seconds_count", "run") == {"of another metric": 1, "good": 1}
    assert page.by_label("asyncrl_step_mean_seconds", "run") == {"of another metric": 0.001, "good": 0.001}
    assert set(page.by_label("asyncrl_policy_loss", "run").values()) == {0.5}
    refused = page.by_label("asyncrl_rejected_records_total", "run", reason="bad_value")
    assert refused == {"few": 1, "many": 1, "of another metric": 1, "good": 0}
    check_page(page.text, page.content_type)


def test_a_partial_whose_mean_none_of_its_values_allows_is_refused_and_no_sum_falls(
    exporter: StartedExporter,
) -> None:
    trainer = Emitter(exporter.otlp)
    counts = [0] * (len(BUCKETS["response_length"]) + 1)
    counts[3] = 2
    for step, total in enumerate((20.0, -100.0, 31.0), 1):
        span = trainer.train_step(
            1,
            step,
            values={"response_length": [2, total, 5.0, 15.0, 50.0]},
            attributes={"asyncrl.buckets.response_length": counts},
        )
        assert trainer.post(span).rejected == 0
    assert trainer.post(trainer.weight_sync(1, 3)).rejected == 0
    page = when_sealed(exporter, "r")
    assert page.value("asyncrl_response_length_mean_tokens", run="r") == 10.0
    assert page.value("asyncrl_response_length_tokens_sum", run="r") == 20.0
    assert page.value("asyncrl_rejected_records_total", run="r", reason="bad_value") == 2


def series_of(page: Scrape, run: str) -> dict[Any, float]:
    """All series of a run, clocks left out."""
    return {
        (name, labels - {("run", run)}): value
        for (name, labels), value in page.samples.items()
        if ("run", run) in labels and not any(word in name for word in CLOCKS)
    }


def test_c25_order_and_split_change_nothing(exporter: StartedExporter) -> None:
    orders = list(itertools.permutations([10.0, 20.0, 90.0]))
    for number, order in enumerate(orders):
        trainer = Emitter(exporter.otlp, run=f"order {number}", source=f"t{number}")
        spans = {
            value: trainer.train_step(
                1,
                int(value),
                values={"load": value, "peak": value / 10.0, "policy_loss": value, "reward": value},
                attributes={"asyncrl.statistic.peak": "max"},
                start=value,
            )
            for value in (10.0, 20.0, 90.0)
        }
        sync = trainer.weight_sync(1, 3, start=100.0)
        records = [spans[value] for value in order]
        records.insert(number % 4, sync)
        if number % 2:
            for record in [*records, *records]:  # one by one, and every one twice
                assert trainer.post(record).rejected == 0
        else:
            assert trainer.post(*records).rejected == 0
    page = when_sealed(exporter, *(f"order {number}" for number in range(len(orders))))
    assert page.value("asyncrl_user_load", run="order 0") == 40.0
    assert page.value("asyncrl_user_peak", run="order 0") == 9.0
    assert page.value("asyncrl_policy_loss", run="order 0") == 40.0
    first = series_of(page, "order 0")
    for number in range(1, len(orders)):
        assert series_of(page, f"order {number}") == first


def test_c25_a_peak_is_the_largest_not_the_total(exporter: StartedExporter) -> None:
    steps = [(8, {"peak": 5.0}), (8, {"peak": 7.0})]
    post_window(exporter, "r", steps, attributes={"asyncrl.statistic.peak": "max"})
    assert when_sealed(exporter, "r").value("asyncrl_user_peak", run="r") == 7.0
