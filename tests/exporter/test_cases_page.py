"""Cases from the field: retries count once, and no name, label or value breaks the page."""

import json
import math
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.exporter.conftest import StartedExporter
from tests.page import check_page
from tests.prometheus import check_metrics
from tests.wire import Emitter, Scrape, post_raw, scrape_until


def generated(total: int) -> Callable[[Scrape], bool]:
    return lambda page: page.value("asyncrl_samples_generated_total", run="r") == total


def test_c24_a_repeated_post_counts_once_and_a_new_life_adds_up(exporter: StartedExporter) -> None:
    for source, total in [("q0", 64), ("q0", 64), ("q1", 128)]:
        queue = Emitter(exporter.otlp, role="queue", source=source)
        point = queue.sum("asyncrl.samples.generated", 64, start=7.0, at=8.0)
        answer = queue.post_metrics(point)
        assert (answer.status, answer.rejected) == (200, 0)
        assert scrape_until(exporter.metrics, generated(total))


def test_c24_records_out_of_order_and_repeated_are_the_same_as_in_order(exporter: StartedExporter) -> None:
    trainer = Emitter(exporter.otlp)
    spans = [
        *trainer.window(1, [{"policy_loss": 1.0}, {"policy_loss": 3.0}]),
        *trainer.window(2, [{"policy_loss": 5.0}]),
    ]
    for span in (spans[0], spans[4], spans[3], spans[3], spans[2], spans[1], spans[0]):
        assert trainer.post(span).rejected == 0
    page = scrape_until(exporter.metrics, lambda page: page.value("asyncrl_policy_loss", run="r") == 5.0)
    assert page.by_label("asyncrl_version_policy_loss", "param_version", run="r") == {"1": 2.0, "2": 5.0}
    assert page.value("asyncrl_train_steps_total", run="r") == 3
    assert page.value("asyncrl_versions_sealed_total", run="r", complete="true") == 2
    check_page(page.text, page.content_type)


def test_c24_the_same_step_from_a_new_source_is_refused(exporter: StartedExporter) -> None:
    first, second = Emitter(exporter.otlp, source="t0"), Emitter(exporter.otlp, source="t1")
    assert first.post(first.train_step(7, 3, values={"policy_loss": 1.0})).rejected == 0
    answer = second.post(second.train_step(7, 3, values={"policy_loss": 9.0}))
    assert answer.rejected == 1
    assert "duplicate_step" in answer.reason
    page = scrape_until(
        exporter.metrics,
        lambda page: page.value("asyncrl_rejected_records_total", run="r", reason="duplicate_step") == 1,
    )
    assert page.value("asyncrl_train_steps_total", run="r") == 1


def lint_of(page: Scrape) -> list[str]:
    """What promtool complains of; it takes the `_s` in a user's own name for an abbreviated unit."""
    lines = check_metrics(page.text).splitlines()
    return [line for line in lines if "user" not in line or "abbreviated units" not in line]


BARE_SUFFIXES = ("total", "count", "sum", "bucket", "created", "info")


def test_c32_names_that_become_one_are_published_once_and_counted(exporter: StartedExporter) -> None:
    trainer = Emitter(exporter.otlp)
    values = {
        "timing_s/gen": 12.0,
        "timing_s_gen": 7.0,
        "timing_s.gen": 3.0,
        "steps": 1.0,
        "steps_total": 2.0,
        **dict.fromkeys(BARE_SUFFIXES, 4.0),
    }
    reported = {"time/gen": 12.0, "time.gen": 7.0, **dict.fromkeys(BARE_SUFFIXES, 5.0)}
    said = {f"asyncrl.reported.{name}": value for name, value in reported.items()}
    step = trainer.train_step(1, 1, values=values, attributes=said)
    trainer.post(step, trainer.weight_sync(1, 1))
    page = scrape_until(exporter.metrics, lambda page: page.by_label("asyncrl_user_timing_s_gen", "run"))
    assert page.by_label("asyncrl_user_timing_s_gen", "run") == {"r": 12.0}
    assert page.value("asyncrl_rejected_records_total", run="r", reason="collision") == 2 + 1
    assert page.value("asyncrl_user_steps", run="r") == 1.0
    assert page.value("asyncrl_user_steps_total_value", run="r") == 2.0
    for name in BARE_SUFFIXES:
        assert page.value(f"asyncrl_user_{name}_value", run="r") == 4.0
        assert page.value(f"asyncrl_reported_{name}_value", run="r", source="") == 5.0
    assert page.by_label("asyncrl_reported_time_gen", "run") == {"r": 12.0}
    check_page(page.text, page.content_type)
    assert lint_of(page) == []


def test_c32_both_names_of_a_collision_are_said(exporter: StartedExporter) -> None:
    trainer = Emitter(exporter.otlp)
    trainer.post(*trainer.window(1, [{"timing_s/gen": 12.0, "timing_s_gen": 7.0}]))
    scrape_until(exporter.metrics, lambda page: page.by_label("asyncrl_user_timing_s_gen", "run"))
    _, said = exporter.stop()
    assert re.search(
        r'event="name collision" run=r name=timing_s_gen taken_by=timing_s/gen$', said, re.MULTILINE
    )


FORGERIES = {
    "quotes, backslash and a forged line": 'qwen"3\\7b\nloss 0',
    "carriage return and tab": "a\rb\tc",
    "emoji": "run \N{GRINNING FACE}",
    "NUL": "nul\0",
    "lone surrogate": "lone \ud800",
    "braces and commas": '{le="1"},x="y" 7',
}


@pytest.mark.parametrize("text", FORGERIES.values(), ids=FORGERIES.keys())
def test_c34_any_text_is_a_label_and_forges_nothing(exporter: StartedExporter, text: str) -> None:
    plain = Emitter(exporter.otlp, run="plain", source="plain")
    plain.post(*plain.window(1, [{"policy_loss": 0.5}]))
    clean = text.replace("\0", "\N{REPLACEMENT CHARACTER}").replace("\ud800", "\N{REPLACEMENT CHARACTER}")

    def attribute(key: str, value: Any) -> dict[str, Any]:
        return {"key": key, "value": {"intValue" if isinstance(value, int) else "stringValue": value}}

    def request(role: str, span: str, attributes: dict[str, Any]) -> dict[str, Any]:
        who = {
            "rl.run.id": text,
            "rl.model.name": text,
            "asyncrl.role": role,
            "asyncrl.source.id": role + text,
        }
        record = {"name": f"asyncrl.{span}", "attributes": [attribute(*pair) for pair in attributes.items()]}
        return {
            "resource": {"attributes": [attribute(*pair) for pair in who.items()]},
            "scopeSpans": [{"spans": [record]}],
        }

    states = {"asyncrl.state_seconds.generating": 3, "asyncrl.state_seconds.paused_staleness": 1}
    document = {
        "resourceSpans": [
            request(
                "trainer", "train_step", {"asyncrl.step": 1, "asyncrl.param_version": 1, "asyncrl.seq": 1}
            ),
            request(
                "rollouter",
                "rollouter_window",
                {"asyncrl.rollouter": text, "asyncrl.param_version": 1, "asyncrl.seq": 1} | states,
            ),
            request(
                "trainer",
                "weight_sync",
                {"asyncrl.steps_in_window": 1, "asyncrl.param_version": 1, "asyncrl.seq": 2},
            ),
        ]
    }
    answer = post_raw(exporter.otlp, json.dumps(document).encode(), content_type="application/json")
    assert (answer.status, answer.body) == (200, b"{}")
    page = scrape_until(
        exporter.metrics, lambda page: page.by_label("asyncrl_rollouter_idle_ratio", "rollouter", run=clean)
    )
    check_page(page.text, page.content_type)
    assert lint_of(page) == []
    assert page.by_label("asyncrl_rollouter_idle_ratio", "rollouter", run=clean) == {clean: 0.25}
    assert page.by_label("asyncrl_run_info", "model", run=clean) == {clean.rsplit("/", 1)[-1]: 1.0}
    assert page.by_label("asyncrl_policy_loss", "run") == {"plain": 0.5}
    assert not [name for name, _ in page.samples if name == "loss"]
    openmetrics = Scrape(exporter.metrics, accept="application/openmetrics-text")
    check_page(openmetrics.text, openmetrics.content_type)
    assert openmetrics.by_label("asyncrl_rollouter_idle_ratio", "rollouter", run=clean) == {clean: 0.25}


def test_c35_unusable_values_cost_no_good_one(exporter: StartedExporter) -> None:
    trainer = Emitter(exporter.otlp)
    values: dict[str, Any] = {
        "entropy": "abc",
        "grad_norm": True,
        "learning_rate": [0.1],
        "reward": [1.0, 2.0],
        "policy_loss": 0.5,
    }
    step = trainer.train_step(1, 1, 1, values=values, sample_count=8)
    step.attributes.add(key="asyncrl.metric.kl_behaviour")  # a key with no value at all
    step.attributes.add(key="asyncrl.metric.clip_ratio").value.bytes_value = b"x"
    nameless = trainer.span("rollouter_window", 1)
    answer = trainer.post(step, nameless, trainer.weight_sync(1, 1))
    assert answer.status == 200
    assert answer.rejected >= 1
    page = scrape_until(exporter.metrics, lambda page: page.value("asyncrl_policy_loss", run="r") == 0.5)
    assert (page.value("asyncrl_rejected_records_total", run="r", reason="bad_value") or 0) >= 4
    assert page.value("asyncrl_rejected_records_total", run="r", reason="missing_attribute") == 1
    for family in ("asyncrl_entropy", "asyncrl_grad_norm", "asyncrl_learning_rate", "asyncrl_reward_mean"):
        assert page.value(family, run="r") is None
    check_page(page.text, page.content_type)


def test_c35_a_number_beyond_every_double_is_refused_at_the_door(exporter: StartedExporter) -> None:
    huge = '{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[{"key":"k","value":{"doubleValue":1%s}}]}]}]}]}'
    assert (
        post_raw(exporter.otlp, (huge % ("0" * 400)).encode(), content_type="application/json").status == 400
    )
    trainer = Emitter(exporter.otlp)
    trainer.post(*trainer.window(1, [{"policy_loss": 0.5, "entropy": 1e308, "grad_norm": -1e308}]))
    page = scrape_until(exporter.metrics, lambda page: page.value("asyncrl_policy_loss", run="r") == 0.5)
    assert all(math.isfinite(value) for (name, _), value in page.samples.items() if "entropy" in name)
    check_page(page.text, page.content_type)


def test_c40_duplicates_in_one_post_are_one_series(exporter: StartedExporter) -> None:
    trainer = Emitter(exporter.otlp)
    step = trainer.train_step(1, 1, 1, values={"policy_loss": 1.0})
    step.attributes.add(key="asyncrl.metric.policy_loss").value.double_value = 2.0
    sync = trainer.weight_sync(1, 1)
    assert trainer.post(step, step, sync, sync).rejected == 0
    queue = Emitter(exporter.otlp, role="queue", source="q0")
    at = queue.now
    same_place = [queue.gauge("asyncrl.queue.capacity", value, at=at) for value in (1.0, 2.0)]
    same_sum = [queue.sum("asyncrl.samples.fed", value, start=1.0, at=at) for value in (1, 2)]
    assert queue.post_metrics(*same_place, *same_sum).status == 200
    good = Emitter(exporter.otlp, run="good", source="g0")
    good.post(*good.window(1, [{"policy_loss": 0.5}]))
    page = scrape_until(exporter.metrics, lambda page: page.value("asyncrl_policy_loss", run="good") == 0.5)
    check_page(page.text, page.content_type)
    assert page.value("asyncrl_train_steps_total", run="r") == 1
    assert page.value("asyncrl_policy_loss", run="r") in (1.0, 2.0)
    assert page.value("asyncrl_queue_capacity", run="r") in (1.0, 2.0)
    assert page.value("asyncrl_samples_fed_total", run="r") in (1, 2)
