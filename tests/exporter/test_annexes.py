"""Annexes: never parts of a window, never late, shown as long as anything of their time is."""

import csv
import re
import signal
import time
from typing import Any

import requests

from exporter.state import Annex, Scope, SealedWindow
from exporter.version_window import HARD_CAP, VersionWindow
from tests.exporter.commands import asyncrl
from tests.exporter.conftest import StartedExporter, StartExporter
from tests.exporter.ledger_harness import Harness, losses
from tests.page import check_page
from tests.wire import WATCHDOG_SECONDS, Emitter, Scrape, scrape_until


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


def test_a_value_of_an_annex_stands_behind_that_of_its_version(exporter: StartedExporter) -> None:
    t = Emitter(exporter.otlp, resource={"service.name": "foreign"})
    now = time.time()
    t.post(
        t.span(
            "checkpoint", 1, {"asyncrl.reported.x": 3.0, "asyncrl.reported.y": 4.0}, start=now, end=now + 3
        ),
        t.span(
            "validation", 1, {"asyncrl.reported.x": 5.0, "asyncrl.reported.y": 6.0}, start=now, end=now + 2
        ),
        t.train_step(1, 1, attributes={"asyncrl.reported.x": 1.0}, start=now, end=now + 1),
        t.weight_sync(1, 1),
    )
    page = scrape_until(
        exporter.metrics, lambda page: page.value("asyncrl_train_steps_total", run="r") == 1.0
    )
    for name, value in (("x", 1.0), ("y", 4.0)):
        assert page.value(f"asyncrl_reported_{name}", run="r", source="foreign") == value
        assert page.by_label(f"asyncrl_version_reported_{name}", "param_version") == {"1": value}
    text = _history(exporter, format="openmetrics").text
    assert re.findall(r"asyncrl_(?:version_)?reported_(.){.*} (.*) .*", text) == [
        ("x", "1.0"),
        ("x", "3.0"),
        ("y", "4.0"),
    ]


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


def test_all_annexes_survive_a_restart(start_exporter: StartExporter) -> None:
    first = start_exporter()
    early, t = Emitter(first.otlp, run="early"), Emitter(first.otlp)
    early.post(*(early.span("validation", version, values={"reward": 1.0}) for version in range(1, 41)))
    early.post(early.weight_sync(40, 0))
    for version in range(1, 41):
        t.post(
            *t.window(version, [{}]),
            t.span("validation", version, values={"reward": 1.0}),
            t.span("checkpoint", version, {"asyncrl.checkpoint.bytes": 5}),
            t.span("generated_cohort", version, values={"reward": 2.0}),
        )

    def shown(page: Scrape) -> list[tuple[str, int]]:
        kinds = {
            "early": ["asyncrl_version_validation_reward_mean"],
            "r": [
                "asyncrl_version_validation_reward_mean",
                "asyncrl_version_checkpoint_bytes",
                "asyncrl_version_generated_reward_mean",
            ],
        }
        return [
            (family, len(page.by_label(family, "param_version", run=run)))
            for run, families in kinds.items()
            for family in families
        ]

    page = scrape_until(
        first.metrics, lambda page: len(page.by_label("asyncrl_version_complete", "param_version")) == 40
    )
    before = shown(page)
    assert [count for _, count in before] == [40] * 4
    first.stop(signal.SIGKILL)
    second = start_exporter(data_dir=first.data_dir)
    assert shown(scrape_until(second.metrics, lambda page: True)) == before


def test_annexes_are_bounded_before_a_version_is_sealed() -> None:
    window = VersionWindow(fewest=2, hold_seconds=300.0)
    for version in range(1, HARD_CAP + 3):
        window.add(_validation(version, 0.0))
    assert (min(window.annexes), len(window.annexes)) == ((1, 3), HARD_CAP)


def _history(exporter: StartedExporter, **query: Any) -> requests.Response:
    url = f"{exporter.metrics}/api/v1/runs/r/versions"
    return requests.get(url, params=query, timeout=WATCHDOG_SECONDS)


def _keys(answer: dict[str, Any]) -> list[tuple[int, int, int]]:
    return [(each["attempt"], each["param_version"], each["train_steps"]) for each in answer["versions"]]


def test_what_is_said_of_versions_without_a_window_is_in_history(exporter: StartedExporter) -> None:
    t, again = Emitter(exporter.otlp), Emitter(exporter.otlp, source="t1", attempt=2)

    def validation(trainer: Emitter, version: int, ratio: float) -> Any:
        return trainer.span("validation", version, values={"exact_match_ratio": ratio})

    t.post(t.weight_sync(0, 0), validation(t, 0, 0.125))
    (alone,) = _history(exporter).json()["versions"]
    assert (alone["param_version"], alone["train_steps"], alone["metrics"]) == (0, 0, {})
    assert (alone["complete"], alone["reasons"]) == (True, [])
    assert alone["annexes"]["validation"]["metrics"] == {"exact_match_ratio": 0.125}
    assert alone["timestamp"] == alone["annexes"]["validation"]["timestamp"]
    for version in (1, 2):
        t.post(*t.window(version, [{"policy_loss": 1.0}]))
    again.post(again.weight_sync(1, 0), validation(again, 1, 0.25), *again.window(2, [{"policy_loss": 1.0}]))
    again.post(validation(again, 2, 0.5))
    found = [
        (each["attempt"], each["param_version"], each["train_steps"])
        for each in _history(exporter).json()["versions"]
    ]
    assert found == [(1, 0, 0), (1, 1, 1), (1, 2, 1), (2, 1, 0), (2, 2, 1)]
    for limit in range(1, 7):
        paged = list[tuple[int, int, int]]()
        cursor: str | None = ""
        while cursor is not None:
            page = _history(exporter, limit=limit, cursor=cursor).json()
            assert 1 <= len(page["versions"]) <= limit
            paged += _keys(page)
            cursor = page["next"]
        assert paged == found
    rows = list(csv.DictReader(_history(exporter, format="csv").text.splitlines()))
    column = "annexes.validation.metrics.exact_match_ratio"
    assert [row[column] for row in rows] == ["0.125", "", "", "0.25", "0.5"]
    text = _history(exporter, format="openmetrics").text
    assert text.count("asyncrl_version_validation_exact_match_ratio{") == 3
    assert [each["param_version"] for each in _history(exporter, **{"from": 1}).json()["versions"]] == [
        1,
        2,
        1,
        2,
    ]
    for source in (("--url", exporter.metrics), ("--data-dir", exporter.data_dir)):
        shown = asyncrl("history", "r", *source, "--metric", "validation.metrics.exact_match_ratio").stdout
        assert [line.split()[-1] for line in shown.splitlines()[1:3]] == ["0.25", "0.5"]


def test_the_initial_weights_are_out_from_the_start(exporter: StartedExporter) -> None:
    """A trainer that evaluates them and dies need not have published them."""
    t = Emitter(exporter.otlp)
    answer = t.post(t.span("validation", 0, values={"exact_match_ratio": 0.5}), t.run_end(0, "failed"))
    assert answer.rejected == 0
    family = "asyncrl_version_validation_exact_match_ratio"
    page = scrape_until(exporter.metrics, lambda page: page.by_label(family, "param_version") == {"0": 0.5})
    assert page.value("asyncrl_rejected_records_total", run="r", reason="bad_value") == 0
    assert page.value("asyncrl_param_version", run="r") is None, "nobody said that they are served"
    assert _keys(_history(exporter).json()) == [(1, 0, 0)]


def test_a_version_that_nobody_trained_is_in_history_at_once(exporter: StartedExporter) -> None:
    """Also at the end of a run: no later window says that there will be none."""
    t, again = Emitter(exporter.otlp), Emitter(exporter.otlp, source="t1", attempt=2)
    values = {"exact_match_ratio": 0.5}
    t.post(t.weight_sync(5, 0), t.span("validation", 5, values=values))
    assert _keys(_history(exporter).json()) == [(1, 5, 0)]
    again.post(
        again.span("validation", 7, values=values),  # waits for its version
        again.weight_sync(7, 0),
        again.train_step(8, 8),
        again.span("validation", 8, values=values),
    )
    assert _keys(_history(exporter).json()) == [(1, 5, 0), (2, 7, 0)]
    again.post(again.weight_sync(8, 2))  # a step of it is missing: its window waits for the grace
    assert _keys(_history(exporter).json()) == [(1, 5, 0), (2, 7, 0)]
    again.post(again.train_step(8, 9), again.span("validation", 9, values=values), again.run_end(9))
    found = [(1, 5, 0), (2, 7, 0), (2, 8, 2), (2, 9, 0)]
    assert _keys(_history(exporter).json()) == found
    assert _keys(_history(exporter, to=7).json()) == found[:2]


def test_the_baseline_of_a_young_run_is_in_its_table(exporter: StartedExporter) -> None:
    t = Emitter(exporter.otlp)
    t.post(t.weight_sync(0, 0), t.span("validation", 0, values={"exact_match_ratio": 0.125}))
    t.post(*t.window(1, [{"policy_loss": 1.0}]))
    shown = asyncrl(
        "history", "r", "--url", exporter.metrics, "--metric", "validation.metrics.exact_match_ratio"
    )
    assert [line.split()[:2] for line in shown.stdout.splitlines()[1:3]] == [["1", "0"], ["1", "1"]]
    assert shown.stdout.splitlines()[1].split()[-1] == "0.125"
