"""Rules, Alertmanager and a webhook, all real, beside runs that go wrong: who is told of what, and that it is over.

Everything happens at once, within two minutes: scripted runs with a fault each, a real run that is healthy and one
whose processes are stopped and killed, exporters that die, GPUs that break. The label `run` tells them apart.
"""

import asyncio
import os
import signal
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dashboards.alerts import ALERTS, GROUPS
from runtime.config_sources import load_config
from runtime.telemetry import schema
from tests.alertmanager import Notification
from tests.exporter.conftest import StartedExporter, StartExporter
from tests.integration.crew_run import carry_out
from tests.integration.gpu_page import FAULTS, HOST
from tests.integration.scenarios import LAST, LEARNED, SCENARIOS, WARM
from tests.integration.station import ENVIRONMENT, FLAGS, Station, run_station
from tests.processes import find
from tests.web_config import token_digest, write_web_config
from tests.wire import post_raw

pytestmark = [pytest.mark.peer, pytest.mark.timeout(600)]

QUIET_VERSIONS = 30
STALLS = {"AsyncRLStalledTrainerStarved", "AsyncRLStalledRolloutersPaused", "AsyncRLWeightSyncStuck"}
"""Which of them depends on the moment in which the rollouter is stopped: it decodes, is paused, or loads weights."""
STANDSTILL = {*STALLS, "AsyncRLVersionStalled"}
PACE = {"AsyncRLWeightSyncSlow", "AsyncRLScrapesFailing", *(alert.name for alert in GROUPS["waiting"])}
"""What is told of real processes where others keep the machine busy is true, and no matter of these tests; of the
healthy run of the script, which is never late, nothing at all is told."""
LONGEST_START_SECONDS = 120
"""Of actors on a busy machine."""
LONGEST_SILENCE_SECONDS = 20
"""An actor that does not answer for longer counts as failed."""
LONGEST_ALERT_SECONDS = 90
"""An hour of memory, and half an hour in which what flaps is still told of."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """The story as the webhook heard it."""

    meanwhile: list[Notification]
    """Until all is well again."""
    at_the_end: list[Notification]
    """Then all exporters are killed, and one comes back with nothing."""
    rules: list[dict[str, Any]]
    station: Station

    def fired(self, **labels: str) -> set[str]:
        wanted = labels.items()
        return {
            told.alert for told in self.meanwhile if told.status == "firing" and wanted <= told.labels.items()
        }


@pytest.fixture(scope="module")
def told(
    start_module_exporter: StartExporter, tmp_path_factory: pytest.TempPathFactory, ray_session: None
) -> Told:
    directory = tmp_path_factory.mktemp("station")
    senders = write_web_config(directory / "senders.yml", bearer_tokens={"trainers": token_digest("token")})
    with (
        run_station(directory, start_module_exporter, SCENARIOS, senders=senders) as station,
        ThreadPoolExecutor(3) as threads,
    ):
        beside: list[Future[Any]] = [
            threads.submit(kill_and_restart_the_replica, station, start_module_exporter),
            threads.submit(disturb_the_guarded_exporter, station, senders),
            threads.submit(break_and_mend_gpus, station),
        ]
        run_healthily(station)
        stop_and_kill_actors(station)
        station.teller.wait_for(LAST + 1)
        replica, *_ = [each.result() for each in beside]
        station.pager.wait_for(lambda: station.quiet, LONGEST_ALERT_SECONDS)
        # It was quiet all the time.
        station.prometheus.wait_for('absent(asyncrl:run:running{run!="endless"})')
        rules = station.prometheus.rules()
        meanwhile = station.told
        lose_everything(station, replica, start_module_exporter, directory / "empty")
        return Told(
            meanwhile=meanwhile, at_the_end=station.told[len(meanwhile) :], rules=rules, station=station
        )


# ---- what happens


def actors_run(run: str, station: Station, *assignments: str) -> Any:
    """The settings of a small run of real processes."""
    small = (
        "steps_per_version=2",
        "required_samples=4",
        "group_size=4",
        "engine.capacity_responses=32",
        f"telemetry.endpoints=[{station.exporter.otlp}]",
    )
    return load_config(assignments=[f"run_id={run}", *small, *assignments])


def run_healthily(station: Station) -> None:
    status, cause, _ = carry_out(actors_run("quiet", station, f"versions={QUIET_VERSIONS}"))
    assert status == schema.COMPLETED, cause


def stop_and_kill_actors(station: Station) -> None:
    """The rollouter is stopped until the run stands still, and goes on; then the trainer is killed."""
    pager, run = station.pager, "disturbed"

    def disturb() -> None:
        try:
            station.prometheus.wait_for(f'asyncrl_param_version{{run="{run}"}} > 2', LONGEST_START_SECONDS)
            rollouter = find(os.getpid(), "ray::Rollouter")
            os.kill(rollouter, signal.SIGSTOP)
            pager.wait_for(lambda: STALLS & pager.fired(run=run), LONGEST_SILENCE_SECONDS)
            os.kill(rollouter, signal.SIGCONT)
            pager.wait_for(lambda: not STALLS & pager.firing(run=run))
        finally:  # if something went wrong, too: or the run would go on
            os.kill(find(os.getpid(), "ray::Trainer"), signal.SIGKILL)

    status, _, _ = carry_out(actors_run(run, station, "versions=1000000"), lambda: asyncio.to_thread(disturb))
    assert status == schema.FAILED


def kill_and_restart_the_replica(station: Station, start_exporter: StartExporter) -> StartedExporter:
    """It joins late, and takes what it has not heard for lost; and it is down when a NaN comes."""
    pager, replica = station.pager, station.replica
    listen = address(replica)
    station.teller.wait_for(WARM // 2)
    station.teller.urls = [station.exporter.otlp, replica.otlp]
    station.teller.wait_for(LEARNED)
    replica.process.kill()
    pager.wait_for(lambda: pager.firing(instance=listen))
    restarted = start_exporter(*FLAGS, "--listen", listen, data_dir=replica.data_dir, environment=ENVIRONMENT)
    station.teller.urls = [station.exporter.otlp, restarted.otlp]
    return restarted


def disturb_the_guarded_exporter(station: Station, senders: Path) -> None:
    """Somebody without a token knocks for a while; then its web config file is written wrongly, and put right."""
    right = senders.read_text()
    for second in range(WARM, WARM + 12):
        station.teller.wait_for(second)
        assert post_raw(station.guarded.otlp, b"").status == 401
    senders.write_text("bearer_token: {}\n")
    station.pager.wait_for(lambda: "AsyncRLWebConfigRejected" in station.pager.fired())
    senders.write_text(right)


def break_and_mend_gpus(station: Station) -> None:
    station.teller.wait_for(WARM)
    station.gpus.broken = True
    station.pager.wait_for(lambda: station.pager.fired(Hostname=HOST) >= set(FAULTS.values()))
    station.gpus.broken = False


def lose_everything(
    station: Station, replica: StartedExporter, start_exporter: StartExporter, empty: Path
) -> None:
    """All exporters are killed; the first comes back at its address, its disk lost."""
    pager = station.pager
    station.teller.stop()
    for exporter in (station.exporter, station.guarded, replica):
        exporter.process.kill()
    pager.wait_for(lambda: "AsyncRLExporterDown" in pager.firing())
    start_exporter(*FLAGS, "--listen", address(station.exporter), data_dir=empty, environment=ENVIRONMENT)
    pager.wait_for(lambda: {"AsyncRLRunVanished", "AsyncRLExporterReplicaDown"} <= pager.firing())


def address(exporter: StartedExporter) -> str:
    """Where it is scraped: its label `instance`."""
    return exporter.metrics.removeprefix("http://")


# ---- what was told


@pytest.mark.parametrize("run", SCENARIOS)
def test_of_each_fault_exactly_its_alerts_are_told(told: Told, run: str) -> None:
    assert told.fired(run=run) == SCENARIOS[run].alerts


def test_of_a_healthy_run_of_real_processes_nothing_is_told_to_its_end_and_beyond(told: Told) -> None:
    assert told.fired(run="quiet") - PACE - STANDSTILL == set()


def test_of_stopped_and_killed_actors_the_cause_is_told(told: Told) -> None:
    """On a busy machine the run may stand still a moment before it is seen why, or after; then that is told, too."""
    fired = told.fired(run="disturbed") - PACE
    assert fired - STANDSTILL == {"AsyncRLRollouterSilent", "AsyncRLRunFailed"}
    assert len(fired & STALLS) == 1, fired
    assert told.fired(run="disturbed", rollouter="0") == {"AsyncRLRollouterSilent"}


def test_of_exporters_that_die_or_refuse_exactly_their_alerts_are_told(told: Told) -> None:
    without_run = {alert.alert for alert in told.meanwhile if not {"run", "gpu"} & alert.labels.keys()}
    assert without_run - PACE == {
        f"AsyncRL{name}" for name in ("ExporterReplicaDown", "CredentialsRefused", "WebConfigRejected")
    }
    assert told.fired(instance=address(told.station.replica)) - PACE == {"AsyncRLExporterReplicaDown"}
    assert told.fired(listener="otlp", status="401") == {"AsyncRLCredentialsRefused"}


def test_of_gpus_that_break_each_is_told_of_by_its_number(told: Told) -> None:
    assert {gpu: told.fired(gpu=gpu) for gpu in "01234"} == {
        **{gpu: {alert} for gpu, alert in FAULTS.items()},
        "4": set(),
    }


def test_everything_resolves(told: Told) -> None:
    last = {tuple(sorted(alert.labels.items())): alert.status for alert in told.meanwhile}
    assert [labels for labels, status in last.items() if status != "resolved"] == []


def test_without_any_exporter_one_alert_is_told_and_a_run_that_is_gone_from_one_is_missed(told: Told) -> None:
    """Of the replicas it is told once the job is no longer without any."""
    names = [alert.alert for alert in told.at_the_end]
    assert names[0] == "AsyncRLExporterDown"
    assert set(names[1:]) == {
        f"AsyncRL{name}" for name in ("ExporterDown", "ExporterReplicaDown", "RunVanished")
    }
    assert [alert.labels["run"] for alert in told.at_the_end if "run" in alert.labels] == ["endless"]


def test_every_rule_is_evaluated_without_an_error_while_two_exporters_publish_the_same_runs(
    told: Told,
) -> None:
    assert {rule["health"] for rule in told.rules} == {"ok"}, [
        (rule["name"], rule["lastError"]) for rule in told.rules if rule["health"] != "ok"
    ]


def test_every_alert_was_told_but_those_of_what_is_full(told: Told) -> None:
    """The others are shown by promtool."""
    fired = {alert.alert for alert in (*told.meanwhile, *told.at_the_end)}
    assert ALERTS.keys() - fired - {"AsyncRLScrapesFailing"} == {
        "AsyncRLWatchdog",
        *(
            f"AsyncRL{name}"
            for name in (
                "JournalUnavailable",
                "PushBehind",
                "ReplicaJournalUnavailable",
                "SeriesBudgetExceeded",
                "ThresholdInvalid",
                "VersionsUnseen",
            )
        ),
        "AsyncRLCertificateEnding",  # none of them speaks TLS
        "AsyncRLRecordsLost",  # held back: of its cause is told
    }


def test_what_is_told_says_of_which_run_and_what_to_read(told: Told) -> None:
    for alert in told.meanwhile:
        severity, said = ALERTS[alert.alert].severity, alert.annotations
        assert alert.labels["severity"] == severity
        assert alert.labels.get("run", "") in said["description"]
        assert said["runbook_url"].endswith(f"/docs/runbooks/{alert.alert}.md")
        assert not any(wrong in " ".join(said.values()) for wrong in ("{{", "<no value>", "<error")), said
