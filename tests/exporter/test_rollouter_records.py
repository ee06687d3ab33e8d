"""What a rollouter's window record may say: capacities, states, no value of the trained cohort; nor a step its own."""

from typing import Any

import pytest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from exporter.publish.version_gauges import utilization_ratio
from tests.exporter.ledger_harness import Harness, losses
from tests.wire import Emitter, Plain


@pytest.mark.parametrize(
    ("capacity", "busy", "utilization", "refused"),
    [
        (10.0, 4.0, 0.4, 0),
        (10.0, 0.0, 0.0, 0),
        (0.0, 0.0, None, 0),
        (None, 4.0, None, 0),
        (10.0, None, None, 0),  # missing is not zero
        (10.0, 20.0, None, 1),
        (10.0, 10.000001, 1.0, 0),  # rounding of the sender's
        (-1.0, 0.0, None, 1),
    ],
)
def test_utilization_is_a_share_of_the_capacity_or_nothing(
    capacity: float | None, busy: float | None, utilization: float | None, refused: int
) -> None:
    harness, t, r = Harness(), Emitter(""), Emitter("", role="rollouter", source="r0")
    record = r.rollouter_window(
        1, "0", {"generating": 1.0}, capacity_seconds=capacity, busy_capacity_seconds=busy
    )
    assert harness.post(r, record).rejected == 0
    harness.post(t, *losses(t, 1, [1]), t.weight_sync(1, 1, ["0"]))
    assert utilization_ratio(harness.sealed[1].rollouters["0"]) == utilization
    assert harness.count("rejected_records_total", "bad_value") == refused


@pytest.mark.parametrize("ids", [(b"", b""), (bytes(16), bytes(8)), (bytes(16), b"12345678")])
def test_a_control_span_without_seq_needs_its_ids(ids: tuple[bytes, bytes]) -> None:
    harness, t = Harness(), Emitter("")
    spans = [t.train_step(1, step, numbered=False) for step in (1, 2)]
    for span in spans:
        span.trace_id, span.span_id = ids
    assert harness.post(t, *spans).rejected == 2
    assert harness.count("rejected_records_total", "missing_attribute") == 2


def test_what_rollouters_generated_and_what_the_trainer_consumed_are_not_mixed() -> None:
    harness, t, r = Harness(), Emitter(""), Emitter("", role="rollouter", source="r0")

    def values(reward: float, seconds: float) -> dict[str, Any]:
        return {
            "reward": [4, 4 * reward, reward, reward, 0.0],
            "policy_loss": reward,
            "generation": [1, seconds, seconds, seconds, 0.0],
            "generated_tokens_per_second": seconds,
        }

    of_slot: dict[str, Plain | None] = {"asyncrl.rollouter": "0"}
    record = r.span("rollouter_window", 1, of_slot, values=values(0.0, 2.0), states={"generating": 1.0})
    assert harness.post(r, record).rejected == 0
    step, sync = (
        t.train_step(1, 1, values=values(1.0, 9.0)),
        t.weight_sync(1, 1, ["0"], values=values(1.0, 9.0)),
    )
    assert harness.post(t, step, sync).rejected == 0
    merged = harness.sealed[1].values
    assert (merged.distributions["reward"].mean, merged.scalars["policy_loss"]) == (1.0, 1.0)
    assert merged.distributions["generation"].mean == 2.0
    assert merged.scalars["generated_tokens_per_second"] == 2.0
    assert harness.count("rejected_records_total", "bad_value") == 3 * 2


@pytest.mark.parametrize("place", [0, 3, 5])
def test_a_partial_with_bytes_among_its_numbers_is_refused(place: int) -> None:
    harness, t = Harness(), Emitter("")
    step = t.train_step(1, 1, values={"reward": [2, 1.0, 0.0, 1.0, 0.5]})
    partial = next(pair.value for pair in step.attributes if pair.key == "asyncrl.metric.reward")
    partial.array_value.values.insert(place, AnyValue(bytes_value=b"x"))
    assert harness.post(t, step, t.weight_sync(1, 1)).rejected == 0
    assert not harness.sealed[1].values.distributions
    assert harness.count("rejected_records_total", "bad_value") == 1
