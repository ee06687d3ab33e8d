"""The sources of a run are bounded, and those that something still needs are kept."""

import pytest

from exporter import senders
from tests.exporter.conftest import StartedExporter
from tests.exporter.ledger_harness import Harness, losses
from tests.wire import Emitter, scrape_until


def test_a_new_source_takes_the_place_of_one_that_is_gone_never_of_a_trainer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(senders, "MAX_SOURCES", 3)
    harness, t = Harness(), Emitter("")
    a, b, c, d = (Emitter("", role="rollouter", source=f"r{number}") for number in range(4))
    harness.post(t, t.weight_sync(0, 0), *losses(t, 1, [1]))
    harness.post(a, a.run_end(0, "stopped"))
    harness.post(b, b.span("rollouter_window", 1, {"asyncrl.rollouter": "1"}))
    assert harness.post(c, c.run_end(0, "stopped")).rejected == 0
    assert list(harness.run.sources) == ["t0", "r1", "r2"]
    assert harness.post(d, d.span("validation", 0)).rejected == 0
    again = Emitter("", role="rollouter", source="r9")
    assert "sources" in harness.post(again, again.span("validation", 0)).reason
    harness.now += 90_000
    assert harness.post(again, again.run_end(0, "stopped")).rejected == 0
    assert "t0" in harness.run.sources


def test_a_second_role_under_the_id_of_a_source_is_refused_with_the_reason(exporter: StartedExporter) -> None:
    """As where two processes of one pod take its name for their id, and count their records each by themselves."""
    trainer = Emitter(exporter.otlp, source="pod-0")
    rollouter = Emitter(exporter.otlp, role="rollouter", source="pod-0")
    assert trainer.post(*trainer.window(1, [{"policy_loss": 2.0}])).rejected == 0
    said = rollouter.post(rollouter.rollouter_window(1, "0", {"generating": 1.0}))
    assert (said.rejected, "'pod-0' is a trainer" in said.reason) == (1, True)
    labels = {"asyncrl.rollouter": "0"}
    assert rollouter.post_metrics(rollouter.gauge("asyncrl.rollouter.decoding", 1, labels)).rejected == 1
    page = scrape_until(exporter.metrics, lambda page: page.value("asyncrl_policy_loss", run="r") == 2.0)
    assert page.value("asyncrl_rejected_records_total", run="r", reason="bad_value") == 2
    assert page.by_label("asyncrl_rollouter_decoding", "rollouter") == {}


def test_the_counters_of_a_run_begin_at_0_those_of_the_metrics_of_its_own_included() -> None:
    harness, t = Harness(), Emitter("")
    harness.post(t, t.weight_sync(0, 0))
    assert harness.count("nonfinite_values_total", "user") == 0
    harness.post(t, t.train_step(1, 1, values={"my/own": float("nan")}))
    assert harness.count("nonfinite_values_total", "user") == 1
