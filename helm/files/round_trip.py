"""What `helm test` runs in the exporter's image: sends a run of three versions, scrapes it back, compares.

Twelve train steps, four a version, whose loss is the number of the step: the versions have to be 2.5, 6.5, 10.5.
"""

import argparse
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import requests
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

VERSIONS = 3
STEPS_PER_VERSION = 4
EXPECTED = {"1": 2.5, "2": 6.5, "3": 10.5}
FAMILY = "asyncrl_version_policy_loss"
MOST_SECONDS = 60.0
"""Longer than a weak node takes from a span to the page."""


def main() -> int:
    flags = _flags()
    session = requests.Session()
    session.verify = flags.ca_file or True
    token = flags.token_file.read_text(encoding="utf-8").strip() if flags.token_file else ""
    run = f"helm-test-{uuid.uuid4().hex[:8]}"
    good = True
    for host in flags.hosts.split(","):
        otlp = f"{flags.scheme}://{host}:{flags.otlp_port}/v1/traces"
        page = f"{flags.scheme}://{host}:{flags.metrics_port}/metrics"
        good &= not token or _is_refused(session, otlp)
        session.headers["authorization"] = f"Bearer {token}"
        _send(session, otlp, run)
        good &= _is_published(session, page, run)
        del session.headers["authorization"]
    return 0 if good else 1


def _flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--scheme", required=True)
    parser.add_argument("--hosts", required=True)
    parser.add_argument("--metrics-port", required=True)
    parser.add_argument("--otlp-port", required=True)
    parser.add_argument("--token-file", type=Path)
    parser.add_argument("--ca-file")
    return parser.parse_args()


def _is_refused(session: requests.Session, url: str) -> bool:
    status = session.post(url, headers={"content-type": "application/x-protobuf"}, timeout=10).status_code
    print(f"{url}: {status} without the token, expected 401")
    return status == 401


def _send(session: requests.Session, url: str, run: str) -> None:
    request = ExportTraceServiceRequest()
    source = {"rl.run.id": run, "asyncrl.role": "trainer", "asyncrl.source.id": run}
    spans = request.resource_spans.add()
    spans.resource.attributes.extend(_key_values(source))
    spans.scope_spans.add(spans=_spans())
    answer = session.post(
        url,
        data=request.SerializeToString(),
        headers={"content-type": "application/x-protobuf"},
        timeout=10,
    )
    answer.raise_for_status()
    said = ExportTraceServiceResponse.FromString(answer.content).partial_success
    print(f"{url}: took the run {run}, {said.rejected_spans} spans refused {said.error_message}")


def _spans() -> Iterator[Span]:
    """The run in the terms of docs/wire.md."""
    records: list[tuple[str, int, dict[str, object]]] = []
    for step in range(1, VERSIONS * STEPS_PER_VERSION + 1):
        version = (step - 1) // STEPS_PER_VERSION + 1
        records.append(
            ("train_step", version, {"asyncrl.step": step, "asyncrl.metric.policy_loss": float(step)})
        )
        if step % STEPS_PER_VERSION == 0:
            sync = {"asyncrl.steps_in_window": STEPS_PER_VERSION, "asyncrl.rollouters": []}
            records.append(("weight_sync", version, sync))
    records.append(("run_end", VERSIONS, {"asyncrl.status": "completed"}))
    now = time.time_ns()
    for seq, (name, version, attributes) in enumerate(records, 1):
        last = {"asyncrl.seq": seq, "asyncrl.param_version": version}
        yield Span(
            name=f"asyncrl.{name}",
            trace_id=uuid.uuid4().bytes,
            span_id=uuid.uuid4().bytes[:8],
            start_time_unix_nano=now + seq,
            end_time_unix_nano=now + seq,
            attributes=_key_values(attributes | last),
        )


def _key_values(attributes: Mapping[str, object]) -> list[KeyValue]:
    return [KeyValue(key=key, value=_any_value(value)) for key, value in attributes.items()]


def _any_value(value: object) -> AnyValue:
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    if isinstance(value, str):
        return AnyValue(string_value=value)
    return AnyValue(array_value=ArrayValue())  # the one list here is empty


def _is_published(session: requests.Session, url: str, run: str) -> bool:
    """Whether the page comes to show what was sent."""
    deadline = time.monotonic() + MOST_SECONDS
    while (shown := _shown(session, url, run)) != EXPECTED and time.monotonic() < deadline:
        time.sleep(0.5)
    print(f"{url}: {FAMILY} by param_version {shown}, expected {EXPECTED}")
    return shown == EXPECTED


def _shown(session: requests.Session, url: str, run: str) -> dict[str, float]:
    answer = session.get(url, timeout=10)
    answer.raise_for_status()
    shown = {}
    for line in answer.text.splitlines():
        if line.startswith(FAMILY + "{") and f'run="{run}"' in line:
            series, _, value = line.rpartition(" ")
            shown[series.partition('param_version="')[2].partition('"')[0]] = float(value)
    return shown


if __name__ == "__main__":
    sys.exit(main())
