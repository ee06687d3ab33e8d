"""What is on the wire, read back by a real receiver."""

import math
import random
import signal
import threading
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from runtime.telemetry import schema
from runtime.telemetry.config import Identity, TelemetryConfig
from runtime.telemetry.emitter import Telemetry
from runtime.telemetry.partial import Partial
from tests.otlp_sink import OtlpSink
from tests.runtime.telemetry.conftest import MakeTelemetry

WATCHDOG_SECONDS = 60.0


def step(
    telemetry: Telemetry,
    number: int = 1,
    values: Mapping[str, float | Partial] | None = None,
    links: Sequence[str] = (),
) -> None:
    telemetry.control(
        schema.TRAIN_STEP,
        param_version=3,
        start_ns=1_000,
        end_ns=2_000,
        attributes={schema.STEP: number},
        values=values,
        links=links,
    )


def rollout(telemetry: Telemetry, sample: int) -> str:
    return telemetry.detail(schema.ROLLOUT, start_ns=1, end_ns=9, attributes={schema.SAMPLE_ID: sample})


def test_a_control_span_carries_its_values_exactly(sink: OtlpSink, make_telemetry: MakeTelemetry) -> None:
    telemetry = make_telemetry(sink.url)
    step(
        telemetry,
        values={
            "policy_loss": 2.5,
            "entropy": math.nan,
            "learning_rate": 1,
            "staleness": Partial.of("staleness", [0, 1, math.nan]),
        },
    )
    assert telemetry.flush(WATCHDOG_SECONDS)
    (span,) = sink.spans
    assert (span.name, span.message.start_time_unix_nano, span.message.end_time_unix_nano) == (
        "asyncrl.train_step",
        1_000,
        2_000,
    )
    loss, rate = (
        span.attributes["asyncrl.metric.policy_loss"],
        span.attributes["asyncrl.metric.learning_rate"],
    )
    assert (loss, rate, type(rate)) == (2.5, 1.0, float)
    assert math.isnan(float(str(span.attributes["asyncrl.metric.entropy"])))
    assert span.attributes["asyncrl.metric.staleness"] == [2.0, 1.0, 0.0, 1.0, 0.5]
    assert span.attributes["asyncrl.buckets.staleness"] == [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    assert span.attributes["asyncrl.nonfinite.staleness"] == 1
    assert list(span.attributes)[-2:] == ["asyncrl.seq", "asyncrl.param_version"]
    assert (span.attributes["asyncrl.seq"], span.attributes["asyncrl.param_version"]) == (1, 3)


def test_a_span_that_cannot_be_encoded_is_counted_and_costs_no_other(
    sink: OtlpSink, make_telemetry: MakeTelemetry
) -> None:
    telemetry = make_telemetry(sink.url)
    step(telemetry, 1, values={"lone surrogate \ud800": 1.0})
    step(telemetry, 2)
    assert telemetry.flush(WATCHDOG_SECONDS)
    assert [span.attributes["asyncrl.seq"] for span in sink.spans] == [2]
    assert telemetry.stats().dropped == {"control": 1, "detail": 0}


def test_values_are_those_of_the_moment_in_which_they_were_said(
    sink: OtlpSink, make_telemetry: MakeTelemetry
) -> None:
    telemetry = make_telemetry(sink.url)
    values: dict[str, float | Partial] = {"entropy": 0.0}
    for number in range(1500):
        values["entropy"] = float(number)
        step(telemetry, number, values)
    assert telemetry.flush(WATCHDOG_SECONDS)
    assert [span.attributes["asyncrl.metric.entropy"] for span in sink.spans] == list(map(float, range(1500)))


def test_the_resource_says_who_speaks(sink: OtlpSink, make_telemetry: MakeTelemetry) -> None:
    telemetry, other = make_telemetry(sink.url), make_telemetry(sink.url)
    step(telemetry)
    assert telemetry.flush(WATCHDOG_SECONDS)
    assert sink.spans[0].resource == {
        "service.name": "asyncrl",
        "asyncrl.source.id": telemetry.source_id,
        "asyncrl.role": "trainer",
        "rl.run.id": "run-1",
        "asyncrl.run.attempt": 1,
        "asyncrl.schema_version": "1",
        "rl.algorithm": "grpo",
        "rl.model.name": "tiny",
        "asyncrl.steps_per_version": 4,
    }
    assert telemetry.source_id != other.source_id


def test_more_attributes_and_links_than_any_default_limit_all_arrive(
    sink: OtlpSink, make_telemetry: MakeTelemetry
) -> None:
    telemetry = make_telemetry(sink.url)
    producers = [rollout(telemetry, sample) for sample in range(300)]
    step(telemetry, values={f"user_{number}": float(number) for number in range(300)}, links=producers)
    assert telemetry.flush(WATCHDOG_SECONDS)
    (span,) = sink.named(schema.TRAIN_STEP)
    assert sum(name.startswith("asyncrl.metric.") for name in span.attributes) == 300
    assert len(span.message.links) == 300
    assert span.message.dropped_attributes_count == span.message.dropped_links_count == 0


def test_seq_counts_every_control_span_without_gaps_from_any_thread(
    sink: OtlpSink, make_telemetry: MakeTelemetry
) -> None:
    telemetry = make_telemetry(sink.url)

    def fifty_steps() -> None:
        for number in range(50):
            step(telemetry, number)

    threads = [threading.Thread(target=fifty_steps) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rollout(telemetry, 1)
    assert telemetry.flush(WATCHDOG_SECONDS)
    assert [span.attributes["asyncrl.seq"] for span in sink.named(schema.TRAIN_STEP)] == list(range(1, 201))
    assert "asyncrl.seq" not in sink.named(schema.ROLLOUT)[0].attributes


def test_a_signal_handler_may_speak_while_its_thread_is_speaking(
    sink: OtlpSink, make_telemetry: MakeTelemetry
) -> None:
    telemetry = make_telemetry(sink.url)
    interrupts = [0]
    done = threading.Event()
    main = threading.get_ident()

    def interrupt() -> None:
        while not done.wait(0.001):
            signal.pthread_kill(main, signal.SIGUSR1)

    def on_signal(_signal: int, _frame: FrameType | None) -> None:
        interrupts[0] += 1
        step(telemetry)

    before = signal.signal(signal.SIGUSR1, on_signal)
    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    spoken = 0
    while interrupts[0] < 50:
        step(telemetry)
        spoken += 1
    done.set()
    interrupter.join()
    signal.signal(signal.SIGUSR1, before)
    assert telemetry.flush(WATCHDOG_SECONDS)
    assert sorted(int(str(span.attributes[schema.SEQ])) for span in sink.spans) == list(
        range(1, spoken + interrupts[0] + 1)
    )


def test_a_dropped_control_span_leaves_a_hole_in_seq(sink: OtlpSink, make_telemetry: MakeTelemetry) -> None:
    telemetry = make_telemetry(sink.url, buffer_spans=2)
    sink.hang()
    step(telemetry, 1)
    sink.wait_for(lambda: sink.hanging > 0)  # span 1 or the metrics are out; the thread takes nothing more
    for number in range(2, 7):
        step(telemetry, number)
    sink.answer()
    assert telemetry.flush(WATCHDOG_SECONDS)
    seqs = [span.attributes["asyncrl.seq"] for span in sink.spans]
    assert seqs[-2:] == [5, 6]
    assert telemetry.stats().dropped["control"] == 6 - len(seqs) > 0


def test_c56_a_step_links_to_its_producers_and_is_the_child_of_none(
    sink: OtlpSink, make_telemetry: MakeTelemetry
) -> None:
    rollouter, trainer = make_telemetry(sink.url), make_telemetry(sink.url)
    queue = [rollout(rollouter, sample) for sample in range(3)]
    queue.append(queue.pop(0))  # put back after a version change: it keeps its trace
    with TracerProvider(shutdown_on_exit=False).get_tracer("host").start_as_current_span("ambient"):
        step(trainer, links=queue)
        wait = trainer.detail(schema.QUEUE_WAIT, start_ns=1, end_ns=2, attributes={}, parent=queue[0])
        rollout(trainer, 9)
    assert rollouter.flush(WATCHDOG_SECONDS)
    assert trainer.flush(WATCHDOG_SECONDS)
    rollouts = {span.attributes["asyncrl.sample.id"]: span.message for span in sink.named(schema.ROLLOUT)}
    (span,) = sink.named(schema.TRAIN_STEP)
    assert span.message.parent_span_id == rollouts[9].parent_span_id == b""
    assert [link.span_id for link in span.message.links] == [rollouts[n].span_id for n in (1, 2, 0)]
    assert [link.trace_id for link in span.message.links] == [rollouts[n].trace_id for n in (1, 2, 0)]
    assert span.message.trace_id not in {message.trace_id for message in rollouts.values()}
    (child,) = sink.named(schema.QUEUE_WAIT)
    assert (child.message.trace_id, child.message.parent_span_id) == (
        rollouts[1].trace_id,
        rollouts[1].span_id,
    )
    assert wait.split("-")[1] == rollouts[1].trace_id.hex()


def test_links_that_lead_nowhere_are_left_out_and_counted(
    sink: OtlpSink, make_telemetry: MakeTelemetry
) -> None:
    telemetry = make_telemetry(sink.url)
    sampled = rollout(telemetry, 1)
    step(telemetry, links=[sampled, "", sampled[:-2] + "00", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "no"])
    assert telemetry.flush(WATCHDOG_SECONDS)
    (span,) = sink.named(schema.TRAIN_STEP)
    assert (len(span.message.links), span.attributes["asyncrl.links.dropped"]) == (1, 4)


def test_detail_is_sampled_by_trace_and_children_follow(
    sink: OtlpSink, make_telemetry: MakeTelemetry
) -> None:
    telemetry = make_telemetry(sink.url, detail_sampling=0.1)
    kept = 0
    for sample in range(1000):
        parent = rollout(telemetry, sample)
        child = telemetry.detail(schema.REWARD, start_ns=1, end_ns=2, attributes={}, parent=parent)
        assert bool(child) == bool(parent)
        kept += bool(parent)
    step(telemetry)
    assert telemetry.flush(WATCHDOG_SECONDS)
    assert len(sink.named(schema.ROLLOUT)) == len(sink.named(schema.REWARD)) == kept
    assert 40 < kept < 180  # 100 +- 6.5 standard deviations at the least
    assert len(sink.named(schema.TRAIN_STEP)) == 1


def test_ids_do_not_come_from_the_seeded_generator(make_telemetry: MakeTelemetry) -> None:
    telemetry = make_telemetry()
    random.seed(7)
    state = random.getstate()
    first = rollout(telemetry, 1)
    assert random.getstate() == state
    random.seed(7)
    assert rollout(telemetry, 1) != first


def test_without_endpoints_everything_is_accepted_and_nothing_held(make_telemetry: MakeTelemetry) -> None:
    telemetry = make_telemetry()
    step(telemetry)
    assert telemetry.flush(0.0)
    assert telemetry.stats().buffered == 0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"endpoints": ("127.0.0.1:4318",)}, "base URLs"),
        ({"endpoints": ("http://127.0.0.1:4318/v1/traces",)}, "without /v1/traces"),
        ({"detail_sampling": 1.5}, "detail_sampling must be in 0..1, got 1.5"),
        ({"buffer_spans": 0}, "buffer_spans must be at least 1, got 0"),
        ({"metrics_interval_seconds": math.nan}, "metrics_interval_seconds must be above 0"),
        ({"exit_timeout_seconds": -1}, "exit_timeout_seconds must not be negative"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TelemetryConfig(**wrong)


def test_an_identity_needs_a_run_and_a_known_role() -> None:
    with pytest.raises(ValueError, match="role must be one of"):
        Identity(run_id="r", role="actor")
    with pytest.raises(ValueError, match="run_id must not be empty"):
        Identity(run_id="", role="trainer")
