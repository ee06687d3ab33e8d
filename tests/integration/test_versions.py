"""What a run says about its versions, on Ray: two rollouters, a model from a directory, no partial rollout."""

from pathlib import Path

import pytest

from runtime.telemetry import schema
from tests.integration.crew_run import carry_out, configure
from tests.otlp_sink import OtlpSink, SpanSeen
from tests.runtime.test_model import save_hugging_face_model

pytestmark = pytest.mark.usefixtures("ray_session")


def column(spans: list[SpanSeen], attribute: str) -> list[object]:
    return [span.attributes[attribute] for span in spans]


def test_model_that_earns_nothing_still_counts_its_steps_and_versions(tmp_path: Path) -> None:
    save_hugging_face_model(tmp_path)  # it knows no digit: every group is filtered for want of variance
    with OtlpSink() as sink:
        settings = (f"model.path={tmp_path}", "versions=3", "rollouters=2", "partial_rollout=false")
        status, cause, reports = carry_out(configure(sink, *settings))
        assert (status, cause) == (schema.COMPLETED, "")
        syncs, steps = sink.named(schema.WEIGHT_SYNC), sink.named(schema.TRAIN_STEP)
        windows = sink.named(schema.ROLLOUTER_WINDOW)
    assert column(syncs, schema.PARAM_VERSION) == [0, 1, 2, 3]
    assert column(syncs, schema.STEPS_IN_WINDOW) == [0, 2, 2, 2]
    assert column(syncs, schema.ROLLOUTERS) == [[], ["0", "1"], ["0", "1"], ["0", "1"]]
    assert column(steps, schema.PARAM_VERSION) == [1, 1, 2, 2, 3, 3]
    assert column(steps, schema.STEP) == [1, 2, 3, 4, 5, 6]
    assert column(steps, schema.STEP_IN_WINDOW) == [1, 2, 1, 2, 1, 2]
    assert column(steps, schema.TRAINED_SAMPLE_COUNT) == [0] * 6
    for span in steps:
        assert schema.METRIC_PREFIX + "reward" in span.attributes
        assert schema.METRIC_PREFIX + "policy_loss" not in span.attributes
    owed = {(span.attributes[schema.ROLLOUTER], span.attributes[schema.PARAM_VERSION]) for span in windows}
    assert owed == {(slot, version) for slot in ("0", "1") for version in (1, 2, 3)}
    assert reports.queue is not None
    assert reports.queue.account.filtered_zero_variance == 24
    assert reports.trainer is not None
    assert reports.trainer.responses_spanning_versions == 0
