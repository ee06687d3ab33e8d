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


def test_what_an_open_window_and_the_end_of_its_attempt_name_is_kept_whatever_its_role(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(senders, "MAX_SOURCES", 3)
    harness, t = Harness(), Emitter("")
    r, both = (Emitter("", role=role, source="both") for role in ("rollouter", "trainer"))
    harness.post(t, *losses(t, 1, [1]))
    t.seq += 1  # on its way: the window stays open
    harness.post(t, *losses(t, 1, [2]))
    harness.post(r, r.rollouter_window(1, "0", {"generating": 1.0}), r.run_end(0, "stopped"))
    both.seq = r.seq
    harness.post(both, both.run_end(0))
    last = Emitter("", role="rollouter", source="last")
    harness.post(last, last.run_end(0, "stopped"))
    for number in range(2):
        harness.now += 2
        again = Emitter("", role="rollouter", source=f"again{number}")
        assert harness.post(again, again.run_end(0, "stopped")).rejected == 0
    assert {"t0", "both"} < set(harness.run.sources)
    harness.wait(15)
    harness.wait(15)
    assert harness.sealed[1].reasons == ("lost_records", "run_end")


def test_a_process_of_two_roles_is_one_source_with_one_count(exporter: StartedExporter) -> None:
    """As of a trainer that generates for itself."""
    process, role = (
        Emitter(exporter.otlp, source="both"),
        Emitter(exporter.otlp, role="rollouter", source="both"),
    )
    assert process.post(process.train_step(1, 1, values={"policy_loss": 2.0})).rejected == 0
    role.seq = process.seq
    assert role.post(role.rollouter_window(1, "0", {"generating": 1.0})).rejected == 0
    process.seq = role.seq
    assert process.post(process.weight_sync(1, 1, ["0"])).rejected == 0
    page = scrape_until(exporter.metrics, lambda page: page.value("asyncrl_policy_loss", run="r") == 2.0)
    assert page.value("asyncrl_version_complete", run="r", attempt=1, param_version=1) == 1.0
    assert page.value("asyncrl_rollouter_idle_ratio", run="r", rollouter="0") == 0.0
    assert page.value("asyncrl_lost_records_total", run="r", role="trainer") == 0


def test_the_counters_of_a_run_begin_at_0_those_of_the_metrics_of_its_own_included() -> None:
    harness, t = Harness(), Emitter("")
    harness.post(t, t.weight_sync(0, 0))
    assert harness.count("nonfinite_values_total", "user") == 0
    harness.post(t, t.train_step(1, 1, values={"my/own": float("nan")}))
    assert harness.count("nonfinite_values_total", "user") == 1
