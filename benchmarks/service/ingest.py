"""Values per CPU second, from HTTP until they are journalled and merged into sealed versions; none may be lost.

The exporter runs on one core. All of its CPU time counts, and only that of the hub's process. The limit decodes the
same bytes with protobuf and reads every key and value into Python, nothing else.
"""

import os
import time
from collections.abc import Iterator

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from benchmarks.service.figure import Figure
from benchmarks.service.load import STEPS, VALUES, SimulatedRun
from benchmarks.service.peer import RL_INSIGHT, measure_peer
from benchmarks.service.started import exporter

VERSIONS_PER_REQUEST = 100
"""500 spans of the trainer: about what the runtime puts into one request when it is in a hurry."""

_HELD_BY = (
    "Of some 530 us of CPU for a step, where bare decoding takes 140, our decoding takes 150, checking and typing 125,"
    " merging and histograms 65, the rest of the ledger 90, journal and snapshot 65; HTTP and threads are what remains."
    " Every value becomes several objects of Python on its way, as it does in bare decoding."
)


def measure(values: int = 2_000_000) -> Iterator[Figure]:
    """Against the hub, and against the limit."""
    run = SimulatedRun("ingested", 2)
    bodies = []
    while run.version * STEPS * VALUES < values:
        bodies.append(run.trainer_body(VERSIONS_PER_REQUEST))
        bodies.extend(run.rollouter_bodies(VERSIONS_PER_REQUEST))
    sent = run.version * STEPS * VALUES
    with exporter(cores={max(os.sched_getaffinity(0))}) as started:
        cpu, began = started.cpu_seconds, time.perf_counter()
        for body in bodies:
            started.post(body)
        seconds, cpu = time.perf_counter() - began, started.cpu_seconds - cpu
        steps = started.value('asyncrl_train_steps_total{run="ingested"}')
        sealed = started.value('asyncrl_versions_sealed_total{complete="true",run="ingested"}')
    assert (steps, sealed) == (run.version * STEPS, run.version), f"{steps} steps, {sealed} versions"
    ours = sent / cpu
    hub = measure_peer(RL_INSIGHT, "insight", str(VALUES), "100")["hub_values_per_cpu_second"]
    limit = sent / _decoding_seconds(bodies)
    what = f"values per CPU second, {sent:,} values, none lost"
    said = f"{ours:,.0f} ({sent / seconds:,.0f}/s by the clock)"
    yield Figure(
        what=what,
        ours=said,
        peer=f"hub of {RL_INSIGHT.replace('==', ' ')}: {hub:,.0f}",
        ratio=ours / hub,
        target=200,
        at_most=False,
        held_by=_HELD_BY,
    )
    yield Figure(
        what=what,
        ours=said,
        peer=f"bare protobuf decoding: {limit:,.0f}",
        ratio=ours / limit,
        target=1 / 2,
        at_most=False,
        held_by=_HELD_BY,
    )


def _read(value: AnyValue) -> object:
    kind = value.WhichOneof("value") or "string_value"
    if kind == "array_value":
        return [_read(item) for item in value.array_value.values]
    return getattr(value, kind)


def _decoding_seconds(bodies: list[bytes]) -> float:
    """CPU seconds of the plainest loop that reads it all."""
    began = time.process_time()
    for body in bodies:
        for resource_spans in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope_spans in resource_spans.scope_spans:
                for span in scope_spans.spans:
                    _ = {pair.key: _read(pair.value) for pair in span.attributes}
    return time.process_time() - began
