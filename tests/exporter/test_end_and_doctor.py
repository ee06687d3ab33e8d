"""`asyncrl end` and `asyncrl doctor` against started exporters."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

from exporter.commands import data_directory
from tests.exporter.commands import asyncrl
from tests.exporter.conftest import StartedExporter, StartExporter
from tests.otlp_sink import OtlpSink
from tests.wire import WATCHDOG_SECONDS, Emitter, Scrape, scrape_until


def addresses(exporter: StartedExporter) -> list[str]:
    return ["--url", exporter.metrics, "--otlp-url", exporter.otlp]


def test_a_run_ended_by_hand_is_stopped_and_what_is_open_of_it_is_sealed(exporter: StartedExporter) -> None:
    trainer = Emitter(exporter.otlp)
    trainer.post(*trainer.window(1, [{"policy_loss": 1.0}]), trainer.train_step(2, 2))
    done = asyncrl("end", "r", *addresses(exporter))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "run 'r' is stopped; its newest version is 1\n"
    page = scrape_until(
        exporter.metrics,
        lambda page: page.value("asyncrl_version_complete", run="r", attempt=1, param_version=2) == 0.0,
    )
    assert page.by_label("asyncrl_run_status", "status", run="r")["stopped"] == 1.0
    again = asyncrl("end", "r", *addresses(exporter))
    assert (again.returncode, again.stderr) == (2, "asyncrl end: run 'r' is stopped already\n")


def test_the_end_of_an_unknown_run_makes_none(exporter: StartedExporter) -> None:
    done = asyncrl("end", "typo", *addresses(exporter))
    assert (done.returncode, done.stderr) == (2, "asyncrl end: there is no run 'typo'; there are none yet\n")
    assert Scrape(exporter.metrics).by_label("asyncrl_run_status", "status", run="typo") == {}


def test_the_doctor_finds_a_sound_exporter_sound(exporter: StartedExporter) -> None:
    done = asyncrl("doctor", *addresses(exporter), "--data-dir", exporter.data_dir)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert all(line.startswith("ok ") for line in done.stdout.splitlines())
    assert "a probe went through the journal and was seen" in done.stdout


def test_doctors_do_not_disturb_each_other(exporter: StartedExporter) -> None:
    with ThreadPoolExecutor(4) as threads:
        done = list(threads.map(lambda _: asyncrl("doctor", *addresses(exporter)), range(4)))
    assert [each.returncode for each in done] == [0] * 4, [each.stdout for each in done]


@pytest.mark.parametrize("wait", ["nan", "-1", "inf"])
def test_a_wait_that_is_no_time_is_refused(wait: str) -> None:
    done = asyncrl("doctor", f"--wait={wait}")
    assert done.returncode == 2
    assert f"must be seconds, 0 or more; got {wait}" in done.stderr


def test_the_doctor_leaves_nothing_on_the_page_in_history_or_in_a_push(start_exporter: StartExporter) -> None:
    with OtlpSink() as store:
        exporter = start_exporter("--push", store.url)
        before = Scrape(exporter.metrics).samples.keys()
        done = asyncrl("doctor", *addresses(exporter))
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        assert Scrape(exporter.metrics).samples.keys() - before == {
            ("asyncrl_exporter_requests_total", frozenset({("signal", "traces"), ("status", "200")}))
        }
        probe = requests.get(f"{exporter.metrics}/api/v1/runs", timeout=WATCHDOG_SECONDS).json()[
            "last_probes"
        ]
        assert exporter.stop()[0] == 0
        assert store.requests == []
    exporter = start_exporter(data_dir=exporter.data_dir)
    answer = requests.get(f"{exporter.metrics}/api/v1/runs", timeout=WATCHDOG_SECONDS).json()
    assert (answer["runs"], answer["last_probes"]) == ([], probe)


def test_the_doctor_names_a_source_whose_clock_is_wrong(exporter: StartedExporter) -> None:
    trainer = Emitter(exporter.otlp)
    trainer.now -= 500
    trainer.post(trainer.train_step(1, 1))
    done = asyncrl("doctor", *addresses(exporter))
    assert done.returncode == 1
    (wrong,) = [line for line in done.stdout.splitlines() if line.startswith("WRONG")]
    assert 'the newest record of role="trainer",rollouter="",run="r" was +49' in wrong


def test_the_doctor_names_an_address_where_nobody_answers(exporter: StartedExporter) -> None:
    done = asyncrl("doctor", "--url", exporter.metrics, "--otlp-url", "http://127.0.0.1:1")
    assert done.returncode == 1
    good, wrong = done.stdout.splitlines()
    assert good.startswith("ok ")
    assert wrong == (
        "WRONG  nobody answers at http://127.0.0.1:1/v1/traces: Connection refused; "
        "is this its --otlp address, and not that of a Collector?"
    )


def test_the_doctor_names_two_addresses_that_are_not_of_one_exporter(
    start_exporter: StartExporter,
) -> None:
    one, other = start_exporter(), start_exporter()
    done = asyncrl("doctor", "--url", one.metrics, "--otlp-url", other.otlp, "--wait", "1")
    assert done.returncode == 1
    assert "do both belong to one exporter" in done.stdout.splitlines()[-1]


def test_a_folder_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_directory, "JOURNAL_FILE", "self/status")  # /proc has it, and takes no file
    (finding,) = data_directory.examine(Path("/proc"))
    assert not finding.good
    assert "/proc cannot be written: " in finding.text


def test_a_folder_without_a_journal_is_wrong_and_not_made(tmp_path: Path) -> None:
    (finding,) = data_directory.examine(tmp_path / "typo")
    assert (finding.good, finding.text) == (
        False,
        f"{tmp_path}/typo holds no journal; give the --data-dir of the exporter",
    )
    assert not (tmp_path / "typo").exists()


def test_a_journal_in_wal_mode_on_a_network_file_system_is_wrong(
    exporter: StartedExporter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/sda / ext4 rw 0 0\nserver:/x {exporter.data_dir} nfs4 rw 0 0\n")
    monkeypatch.setattr(data_directory, "_MOUNTS", mounts)
    *_, finding = data_directory.examine(exporter.data_dir)
    assert not finding.good
    assert "on nfs4, where the journal needs `journal_mode: rollback`; it has wal" in finding.text
