"""Annexes: never parts of a window, never late, shown as long as anything of their time is."""

import signal

from exporter.state import Annex, Scope, SealedWindow
from exporter.version_window import VersionWindow
from tests.exporter.conftest import StartedExporter, StartExporter
from tests.exporter.ledger_harness import Harness, losses
from tests.page import check_page
from tests.wire import Emitter, scrape_until


def test_annexes_that_wait_leave_room_for_those_of_published_versions() -> None:
    harness, t = Harness(), Emitter("")
    harness.post(t, t.weight_sync(0, 0), *(t.span("validation", version) for version in range(1, 65)))
    assert "limit" in harness.post(t, t.span("validation", 65)).reason
    assert harness.post(t, t.span("validation", 0)).rejected == 0
    assert [annex.version for annex in harness.annexes] == [0]


def test_an_annex_that_was_given_up_as_lost_is_still_taken() -> None:
    harness, t = Harness(), Emitter("")
    validation = t.span("validation", 0)
    harness.post(t, t.weight_sync(0, 0))
    harness.wait(1)
    harness.wait(16)
    assert harness.count("lost_records_total", "trainer") == 1
    assert harness.post(t, validation).rejected == 0
    assert [annex.kind for annex in harness.annexes] == ["validation"]


def test_a_second_annex_of_a_kind_moves_no_counter() -> None:
    harness, t = Harness(), Emitter("")
    harness.post(t, t.weight_sync(0, 0))
    for _ in range(2):
        harness.post(t, t.span("validation", 0, values={"exact_match_ratio": float("nan")}))
    assert harness.count("nonfinite_values_total", "exact_match_ratio") == 1


def test_syncs_without_steps_leave_nothing_behind() -> None:
    harness, t = Harness(), Emitter("")
    for version in range(500):
        harness.post(t, t.weight_sync(version, 0))
    assert harness.run.current.published == 499
    assert len(harness.run.current.syncs) <= 3


def _sealed(version: int, at: float) -> SealedWindow:
    harness, t = Harness(), Emitter("")
    harness.now = at
    harness.post(t, *losses(t, version, [version]), t.weight_sync(version, 1))
    return harness.sealed[version]


def _validation(version: int, at: float) -> Annex:
    return Annex(
        run="r", attempt=1, version=version, kind="validation", timestamp_ns=0, arrived_at=at, values=Scope()
    )


def test_an_annex_that_comes_after_its_version_has_left_stays_as_long_as_a_version_does() -> None:
    window = VersionWindow(fewest=2, hold_seconds=300.0)
    for version in range(1, 6):
        window.add(_sealed(version, version * 200.0))
    window.add(_validation(1, 250.0))
    window.add(_validation(2, 1000.0))
    for wall, kept in ((1000.0, [2]), (1301.0, [])):
        window.trim(wall=wall, scrape_interval=None, most=100)
        assert [version for _, version in window.annexes] == kept


def test_values_that_a_sender_computed_itself_are_published_on_an_annex_too(
    exporter: StartedExporter,
) -> None:
    t = Emitter(exporter.otlp, resource={"service.name": "foreign"})
    reported = {"asyncrl.reported.validation_pass_ratio": 0.75}
    t.post(*t.window(1, [{"policy_loss": 1.0}]), t.span("validation", 1, reported))
    page = scrape_until(exporter.metrics, lambda page: page.value("asyncrl_policy_loss", run="r") == 1.0)
    check_page(page.text, page.content_type)
    assert page.value("asyncrl_reported_validation_pass_ratio", run="r", source="foreign") == 0.75
    labels: dict[str, str | int] = {"run": "r", "attempt": 1, "param_version": 1, "source": "foreign"}
    assert page.value("asyncrl_version_reported_validation_pass_ratio", **labels) == 0.75
    t.post(*t.window(2, [{"policy_loss": 2.0}]))
    page = scrape_until(exporter.metrics, lambda page: page.value("asyncrl_policy_loss", run="r") == 2.0)
    assert page.by_label("asyncrl_reported_validation_pass_ratio", "source") == {}
    assert page.value("asyncrl_version_reported_validation_pass_ratio", **labels) == 0.75


def test_a_validation_of_the_initial_weights_survives_a_restart(start_exporter: StartExporter) -> None:
    first = start_exporter()
    t = Emitter(first.otlp)
    t.post(t.weight_sync(0, 0), t.span("validation", 0, values={"exact_match_ratio": 0.25}))
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGTERM):
        page = scrape_until(first.metrics, lambda page: page.value("asyncrl_param_version", run="r") == 0)
        found = page.by_label("asyncrl_version_validation_exact_match_ratio", "param_version", run="r")
        assert found == {"0": 0.25}
        first.stop(number)
        first = start_exporter(data_dir=first.data_dir)
