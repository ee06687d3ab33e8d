"""However a record travels - late, twice, beside others, through a Collector - the versions are the same, bit for bit,
and two exporters that are fed in parallel agree."""

import random
import re
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
import requests
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from exporter import otlp
from runtime.telemetry import schema
from runtime.telemetry.config import Identity, TelemetryConfig
from runtime.telemetry.emitter import Telemetry
from runtime.telemetry.partial import Partial
from tests.exporter.conftest import StartedExporter, StartExporter
from tests.exporter.ledger_harness import Harness
from tests.page import check_page
from tests.wire import WATCHDOG_SECONDS, Emitter, Scrape, post_raw, scrape_until

SLOTS = ("0", "1")
VERSIONS = 4
SECOND_NS = 1_000_000_000


def trainer_spans(trainer: Emitter, versions: int) -> list[Any]:
    """Two steps, a sync and a validation for each version; awkward numbers, whose sums depend on their order."""
    spans: list[Any] = [trainer.weight_sync(0, 0)]
    for version in range(1, versions + 1):
        for step in (2 * version - 1, 2 * version):
            values = {
                "policy_loss": 0.1 * step,
                "reward": [3, 0.1 + step, 0.1 / step, 1.0 * step, 0.3 / step],
                "accuracy": 1e16 if step % 2 else 1.0 / 3.0,
            }
            spans.append(
                trainer.train_step(version, step, values=values, sample_count=7, token_count=3 * step)
            )
        times = {"training": 1.1 * version, "waiting_samples": 0.7}
        spans.append(trainer.weight_sync(version, 2, SLOTS, states=times))
        spans.append(trainer.span("validation", version, {"asyncrl.sample_count": 9}, values={"reward": 0.1}))
    return spans


def requests_of(versions: int) -> list[ExportTraceServiceRequest]:
    """What a run of two rollouters sends, a request per record, in the order in which it happens."""
    trainer = Emitter("")
    trainer.now = 1_000_000.0
    sent = [trainer.request(span) for span in trainer_spans(trainer, versions)]
    for slot in SLOTS:
        rollouter = Emitter("", role="rollouter", source=f"r{slot}")
        rollouter.now = 1_000_000.5
        for version in range(1, versions + 1):
            times = {"generating": 0.1 * version, "paused_staleness": 0.3}
            window = rollouter.rollouter_window(version, slot, times)
            sent.append(rollouter.request(window))
    return sent


def accounts_of(count: int) -> list[ExportMetricsServiceRequest]:
    """What a queue says of its account, every second."""
    queue = Emitter("", role="queue", source="q0")
    said = []
    for second in range(1, count + 1):
        points = [
            queue.sum("asyncrl.samples.fed", 10 * second, start=1.0, at=1.0 + second),
            queue.sum(
                "asyncrl.samples", 8 * second, {"asyncrl.outcome": "trained"}, start=1.0, at=1.0 + second
            ),
            queue.gauge("asyncrl.samples.in_flight", second, at=1.0 + second),
            queue.gauge("asyncrl.samples.queued", second, at=1.0 + second),
        ]
        said.append(queue.metrics_request(*points))
    return said


def through_a_collector(sent: Sequence[Any], chance: random.Random) -> list[Any]:
    """The same records in other requests: out of order, some twice, those of several sources in one request."""
    parts = [part for request in sent for part in resources(request)]
    parts += [part for part in parts if chance.random() < 0.3]
    chance.shuffle(parts)
    batched = []
    while parts:
        size = chance.randrange(1, 6)
        taken, parts = parts[:size], parts[size:]
        request = type(sent[0])()
        resources(request).extend(taken)
        batched.append(request)
    return batched


def resources(request: Any) -> Any:
    return (
        request.resource_spans if isinstance(request, ExportTraceServiceRequest) else request.resource_metrics
    )


def signal_of(request: Any) -> otlp.Signal:
    return "traces" if isinstance(request, ExportTraceServiceRequest) else "metrics"


def outcome(harness: Harness, sent: Sequence[Any]) -> bytes:
    """Every sealed version, annex and counter after these requests."""
    for request in sent:
        batch = otlp.decode(signal_of(request), request.SerializeToString())
        assert harness.ledger.apply(batch, wall=harness.now, monotonic=harness.now).rejected == 0
        harness.wait(0.0)
    run = harness.run
    annexes = sorted(harness.annexes, key=lambda annex: annex.version)
    windows = sorted(harness.sealed.items())
    queue = run.sources.get(run.queue)
    counters = {
        name: {" ".join(labels): total.value for labels, total in sorted(children.items())}
        for name, children in sorted(run.counters.items())
    }
    held = (queue.in_flight, queue.queued) if queue else None
    assert [version for version, _ in windows] == list(range(1, VERSIONS + 1)) or not windows
    return msgspec.json.encode(
        [windows, annexes, counters, held, sorted(run.timestamps), run.current.published]
    )


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_versions_and_counters_are_the_same_bit_for_bit_in_any_delivery(seed: int) -> None:
    sent = requests_of(VERSIONS)
    in_order = outcome(Harness(), sent)
    assert outcome(Harness(), through_a_collector(sent, random.Random(seed))) == in_order


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_an_account_is_the_same_in_any_delivery(seed: int) -> None:
    said = accounts_of(8)
    assert outcome(Harness(), through_a_collector(said, random.Random(seed))) == outcome(Harness(), said)


def history_body(exporter: StartedExporter, run: str) -> bytes:
    url = f"{exporter.metrics}/api/v1/runs/{run}/versions"
    return requests.get(url, timeout=WATCHDOG_SECONDS).content


def shown(exporter: StartedExporter, run: str, versions: int) -> list[str]:
    """The series of the run once it has so many versions, but for those on the exporter's own clock."""
    page = scrape_until(
        exporter.metrics,
        lambda page: page.value("asyncrl_versions_sealed_total", run=run, complete="true") == versions,
    )
    check_page(page.text, page.content_type)
    own = re.compile(r"asyncrl_(last_|exporter_|attempt_start_)\w+|process_|python_|#")
    return sorted(line for line in page.text.splitlines() if not own.match(line))


@pytest.mark.parametrize("seed", [1, 2])
def test_behind_a_collector_that_merges_splits_reorders_and_repeats_the_page_is_the_same(
    start_exporter: StartExporter, seed: int
) -> None:
    direct, behind = start_exporter("--grace", "600"), start_exporter("--grace", "600")
    chance = random.Random(seed)
    spans, points = requests_of(VERSIONS), accounts_of(8)
    for exporter, said in (
        (direct, [*spans, *points]),
        (behind, [*through_a_collector(spans, chance), *through_a_collector(points, chance)]),
    ):
        for request in said:
            answer = post_raw(exporter.otlp, request.SerializeToString(), signal=signal_of(request))
            assert (answer.status, answer.rejected) == (200, 0)
    assert shown(direct, "r", VERSIONS) == shown(behind, "r", VERSIONS)
    assert history_body(direct, "r") == history_body(behind, "r")


def test_two_exporters_on_the_endpoint_list_of_the_runtime_agree_bit_for_bit(
    start_exporter: StartExporter,
) -> None:
    pair = (start_exporter("--grace", "600"), start_exporter("--grace", "600"))
    config = TelemetryConfig(
        endpoints=tuple(exporter.otlp for exporter in pair), flush_interval_seconds=0.01, batch_spans=3
    )
    trainer = Telemetry(config, Identity(run_id="twin", role="trainer"))
    rollouters = [
        Telemetry(config, Identity(run_id="twin", role="rollouter", rollouter=slot)) for slot in SLOTS
    ]
    for version in range(1, VERSIONS + 1):
        for step in (2 * version - 1, 2 * version):
            begin = trainer.clock.now_ns()
            trainer.control(
                schema.TRAIN_STEP,
                param_version=version,
                start_ns=begin,
                end_ns=begin + SECOND_NS,
                attributes={schema.STEP: step, schema.SAMPLE_COUNT: 7, schema.TOKEN_COUNT: 3 * step},
                values={"policy_loss": 0.1 * step, "reward": Partial.of("reward", [0.1, 0.2, 0.7 / step])},
            )
        trainer.control(
            schema.WEIGHT_SYNC,
            param_version=version,
            start_ns=begin,
            end_ns=begin + SECOND_NS,
            attributes={schema.STEPS_IN_WINDOW: 2, schema.ROLLOUTERS: SLOTS},
        )
        for slot, rollouter in zip(SLOTS, rollouters, strict=True):
            rollouter.control(
                schema.ROLLOUTER_WINDOW,
                param_version=version,
                start_ns=begin,
                end_ns=begin + SECOND_NS,
                attributes={
                    schema.ROLLOUTER: slot,
                    f"{schema.STATE_SECONDS_PREFIX}generating": 0.1 * version,
                },
            )
    for telemetry in (trainer, *rollouters):
        assert telemetry.flush(WATCHDOG_SECONDS)
        telemetry.shutdown(WATCHDOG_SECONDS)
    first, second = (
        [line for line in shown(exporter, "twin", VERSIONS) if line.startswith("asyncrl_version_")]
        for exporter in pair
    )
    assert len(first) > VERSIONS * 10
    assert first == second
    assert history_body(pair[0], "twin") == history_body(pair[1], "twin")
    assert all(
        Scrape(exporter.metrics).value("asyncrl_train_steps_total", run="twin") == 8 for exporter in pair
    )
