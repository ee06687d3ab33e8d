"""`asyncrl history`: lists and exports all that is sealed, from a running exporter or from its journal."""

import csv
import io
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from exporter.commands.openmetrics_file import OpenMetricsFile
from exporter.commands.table import sparkline, table
from exporter.errors import UnfaithfulExport
from exporter.publish.backfill import sample_time
from tests.exporter.commands import asyncrl
from tests.exporter.conftest import StartedExporter, StartExporter
from tests.prometheus import require_binary, run_prometheus
from tests.web_config import Authority, bcrypt_hash, token_digest, write_web_config
from tests.wire import WATCHDOG_SECONDS, Emitter, scrape_until

VERSIONS = 25
ODD_RUN = 'odd "run"\u2028\x1b[31m\nx'


@pytest.fixture(scope="module")
def filled(start_module_exporter: Any) -> StartedExporter:
    """Two attempts of run `r`, 25 versions and 3, 0 validated, the last partial; and a run with a hostile name."""
    exporter: StartedExporter = start_module_exporter("--grace", "0.2")
    for attempt, versions in ((1, VERSIONS), (2, 3)):
        trainer = Emitter(exporter.otlp, source=f"t{attempt}", attempt=attempt)
        trainer.now = time.time() - 20_000 + 1000 * attempt
        trainer.post(trainer.span("validation", 0, values={"reward": [1, 0.25, 0.25, 0.25, 0.0]}))
        for version in range(1, versions + 1):
            values = {"policy_loss": attempt * 100 + version, "reward": [4, 2.0, 0.0, 1.0, 0.5]}
            trainer.post(*trainer.window(version, [values] * 2, seconds=0.001))
        trainer.post(
            trainer.span(
                "validation", versions, {"asyncrl.sample_count": 5}, values={"reward": [1, 1, 1, 1, 0]}
            )
        )
        trainer.post(trainer.train_step(versions + 1, 1000, values={"policy_loss": 0.5}))
        trainer.post(trainer.run_end(versions))
    odd = Emitter(exporter.otlp, run=ODD_RUN, source="odd")
    odd.now = time.time() - 20_000
    odd.post(*odd.window(1, [{"policy_loss": 1.5}]))
    scrape_until(
        exporter.metrics,
        lambda page: page.value("asyncrl_versions_sealed_total", run="r", complete="true") == VERSIONS + 3,
    )
    return exporter


def history(exporter: StartedExporter, run: str = "r") -> list[dict[str, Any]]:
    url = f"{exporter.metrics}/api/v1/runs/{quote(run, safe='')}/versions"
    versions: list[dict[str, Any]] = requests.get(url, timeout=WATCHDOG_SECONDS).json()["versions"]
    return versions


def test_the_runs_are_listed_with_the_trend_of_their_metrics(filled: StartedExporter) -> None:
    done = asyncrl("history", "--url", filled.metrics, "--metric", "policy_loss")
    assert (done.returncode, done.stderr) == (0, "")
    head, odd, run = done.stdout.splitlines()
    assert head.split() == ["run", "status", "attempt", "version", "sealed", "policy_loss"]
    assert odd.startswith('odd "run"??[31m?x  running')
    assert run.split() == ["r", "completed", "2", "3", "4", sparkline([201, 202, 203, 0.5]), "0.5"]


def test_the_versions_of_a_run_are_listed_newest_last(filled: StartedExporter) -> None:
    done = asyncrl("history", "r", "--url", filled.metrics, "--last", "2")
    assert (done.returncode, done.stderr) == (0, "")
    head, whole, partial, _, _, *trends = done.stdout.splitlines()
    assert head.split()[-2:] == ["reward", "policy_loss"]
    assert [*whole.split()[:2], *whole.split()[4:]] == ["2", "3", "yes", "2", "16", "0.5", "203"]
    assert [*partial.split()[:2], *partial.split()[4:]] == ["2", "4", "run_end", "1", "-", "-", "0.5"]
    assert trends[1].split() == ["policy_loss", sparkline([1.0, 0.0]), "0.5", "203"]


def test_the_journal_of_a_killed_exporter_tells_the_same(start_exporter: StartExporter) -> None:
    exporter = start_exporter()
    trainer = Emitter(exporter.otlp)
    trainer.post(*trainer.window(1, [{"policy_loss": 2.0}]), *trainer.window(2, [{"policy_loss": 4.0}]))
    scrape_until(exporter.metrics, lambda page: page.value("asyncrl_policy_loss", run="r") == 4.0)
    served = asyncrl("history", "r", "--url", exporter.metrics).stdout
    exporter.process.kill()
    exporter.process.wait()
    stored = asyncrl("history", "r", "--data-dir", exporter.data_dir)
    assert (stored.stdout, stored.stderr) == (served, "")
    assert asyncrl("history", "--data-dir", exporter.data_dir).stdout.splitlines()[1].split()[:5] == [
        *("r", "unknown", "1", "2", "2")
    ]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nobody"], "there is no run 'nobody'; there are 'odd "),
        (["--last", "0"], "--last must be 1 or more, got 0"),
        (
            ["r", "--metric", "typo"],
            "no version shown has the metric 'typo'; they have policy_loss, reward\n",
        ),
        (["export", "r", "nobody", "--format", "csv"], "there is no run 'nobody'; there are 'odd "),
        (["export", "--format", "csv", "--from", "3", "--to", "2"], "--from 3 is above --to 2; no version "),
        (["--data-dir", "/nowhere"], "--data-dir reads a journal, --url asks an exporter: give one of them"),
        (
            ["--otlp-url", "localhost:4318"],
            "--otlp-url must begin with http:// or https://, got 'localhost:4318'",
        ),
        (["--user", "u"], "--user needs --password-file beside it"),
        (["--password-file", "/dev/null"], "--password-file needs --user beside it"),
        (["--key-file", "/dev/null"], "--key-file needs --cert-file beside it"),
        (["--ca-file", "/dev/null"], "--ca-file /dev/null holds no certificates: "),
        (
            ["--cert-file", "/dev/null", "--key-file", "/dev/null"],
            "--cert-file /dev/null and --key-file /dev/null are no certificate with its key: ",
        ),
        (
            ["--user", "u", "--password-file", "/dev/null", "--token-file", "/dev/null"],
            "--user and --token-file are for the same listener: give one; --otlp-token-file is ",
        ),
        (["export", "--format", "parquet"], "--format parquet needs --output FILE"),
        (["--token-file", "/nowhere"], "cannot read /nowhere"),
    ],
)
def test_a_mistake_is_one_line(filled: StartedExporter, arguments: list[str], complaint: str) -> None:
    done = asyncrl("history", *arguments, "--url", filled.metrics)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.partition(": ")[2].startswith(complaint)
    assert done.stderr.count("\n") == 1


def test_a_folder_without_a_journal_is_one_line() -> None:
    done = asyncrl("history", "--data-dir", "/nowhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == ("asyncrl history: /nowhere holds no journal; give the --data-dir of an exporter\n")


def test_an_exporter_that_does_not_answer_is_named() -> None:
    done = asyncrl("history", "--url", "http://127.0.0.1:1")
    assert (done.returncode, done.stderr) == (
        2,
        "asyncrl history: nobody answers at http://127.0.0.1:1/api/v1/runs: Connection refused; "
        "is `asyncrl exporter` running, and is this its --listen address?\n",
    )


def test_a_table_of_rows_has_every_version_and_value(filled: StartedExporter, tmp_path: Path) -> None:
    exported = asyncrl("history", "export", "--format", "csv", "--url", filled.metrics)
    stored = asyncrl("history", "export", "--format", "csv", "--data-dir", filled.data_dir)
    assert exported.returncode == stored.returncode == 0, exported.stderr + stored.stderr
    assert exported.stdout == stored.stdout
    assert exported.stderr == f"{VERSIONS + 8} versions of 2 runs\n"
    rows = list(csv.DictReader(io.StringIO(exported.stdout)))
    asyncrl(
        "history",
        "export",
        "--format",
        "parquet",
        "--output",
        tmp_path / "h.parquet",
        "--url",
        filled.metrics,
    )
    columns: list[dict[str, Any]] = parquet.read_table(tmp_path / "h.parquet").to_pylist()
    assert [row["run"] for row in rows] == [ODD_RUN] + ["r"] * (VERSIONS + 7)
    for row, column, version in zip(
        rows, columns, [*history(filled, ODD_RUN), *history(filled)], strict=True
    ):
        assert int(row["param_version"]) == column["param_version"] == version["param_version"]
        loss = version["metrics"].get("policy_loss")
        assert row["metrics.policy_loss"] == ("" if loss is None else str(loss))
        assert column["metrics.policy_loss"] == loss
        assert column["complete"] is version["complete"]
        assert column["metrics.reward.std"] == version["metrics"].get("reward", {}).get("std")
    some = asyncrl(
        "history", "export", "r", "--format", "csv", "--from", "3", "--to", "4", "--url", filled.metrics
    )
    assert [line.split(",")[:3] for line in some.stdout.splitlines()[1:]] == [
        ["r", attempt, version] for attempt, version in (("1", "3"), ("1", "4"), ("2", "3"), ("2", "4"))
    ]


def test_a_prometheus_on_the_blocks_has_every_published_version_at_its_time(
    filled: StartedExporter, tmp_path: Path
) -> None:
    require_binary("promtool")
    done = asyncrl(
        *("history", "export", "--format", "openmetrics", "--output", tmp_path / "history.om"),
        *("--blocks", tmp_path / "tsdb", "--url", filled.metrics),
    )
    assert done.returncode == 0, done.stderr
    written = int(done.stderr.split()[0])
    lines = (tmp_path / "history.om").read_text(encoding="utf-8").split("\n")
    assert written == sum(bool(line) and not line.startswith("#") for line in lines)
    with run_prometheus(tmp_path, [], interval_seconds=60) as prometheus:
        found = {
            (series["metric"]["__name__"], series["metric"]["run"]): dict(series["values"])
            for series in prometheus.query('{run!=""}[12h]')
        }
        assert sum(map(len, found.values())) == written
    published = [
        version
        for version in history(filled)
        if version["param_version"] and version["reasons"] != ["run_end"]
    ]
    for name, expected in (
        ("asyncrl_policy_loss", [version["metrics"]["policy_loss"] for version in published]),
        ("asyncrl_param_version", [version["param_version"] for version in published]),
        ("asyncrl_run_attempt", [version["attempt"] for version in published]),
        ("asyncrl_version_complete", [version["complete"] for version in published]),
    ):
        times = [int(version["timestamp"] * 1000) / 1000 for version in published]
        assert list(found[name, "r"]) == times
        assert [float(value) for value in found[name, "r"].values()] == expected
    validated = found["asyncrl_version_validation_reward_mean", "r"]
    assert sorted(float(value) for value in validated.values()) == [0.25, 0.25, 1.0, 1.0]
    of_windows = {at for at, value in validated.items() if float(value) == 1.0}
    assert of_windows < set(found["asyncrl_param_version", "r"])  # at the times of their versions
    assert list(found["asyncrl_policy_loss", ODD_RUN].values()) == ["1.5"]


def test_blocks_that_lack_a_sample_fail_the_export(filled: StartedExporter, tmp_path: Path) -> None:
    lossy = tmp_path / "bin" / "promtool"
    lossy.parent.mkdir()
    lossy.write_text('#!/bin/sh\nmkdir "$5/x" && echo \'{"stats": {"numSamples": 7}}\' > "$5/x/meta.json"\n')
    lossy.chmod(0o755)
    done = asyncrl(
        *("history", "export", "--format", "openmetrics", "--blocks", tmp_path / "blocks"),
        *("--url", filled.metrics),
        folder=lossy.parent,
    )
    assert done.returncode == 2
    assert "samples were written, the blocks in" in done.stderr
    assert done.stderr.endswith("hold 7\n")


def test_a_folder_for_blocks_that_cannot_be_made_is_said_in_a_line(filled: StartedExporter) -> None:
    nowhere = ("--blocks", "/proc/nope", "--url", filled.metrics)
    done = asyncrl("history", "export", "--format", "openmetrics", *nowhere)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "cannot make the folder /proc/nope: " in done.stderr


def test_two_samples_of_a_series_in_one_millisecond_fail_the_export() -> None:
    content = OpenMetricsFile()
    for nanoseconds in ("600100000", "600900000"):
        content.add(f'# HELP x h\n# TYPE x gauge\nx{{run="r"}} 1.0 17.{nanoseconds}\n# EOF\n')
    with pytest.raises(UnfaithfulExport, match=r'two samples of x\{run="r"\} at 17\.601'):
        content.write(io.BytesIO())


@given(st.permutations(range(6)))
def test_pages_in_any_order_make_one_family_in_the_order_of_time(order: list[int]) -> None:
    content = OpenMetricsFile()
    for second in order:
        name = "xy"[second % 2]
        content.add(
            f'# HELP {name} h\n# TYPE {name} gauge\n{name}{{a="\u2028 b"}} {second}.0 {second}.5\n# EOF\n'
        )
    file = io.BytesIO()
    content.write(file)
    lines = file.getvalue().decode().split("\n")
    assert sorted(lines[:5] + lines[5:10]) == sorted(
        f"# {word}" for name in "xy" for word in (f"HELP {name} h", f"TYPE {name} gauge")
    ) + [f'{"xy"[second % 2]}{{a="\u2028 b"}} {second}.0 {second}.000000005' for second in (0, 2, 4, 1, 3, 5)]
    assert lines[10:] == ["# EOF", ""]


@given(st.integers(0, 4 * 10**18))
def test_prometheus_reads_the_millisecond_that_was_meant(timestamp_ns: int) -> None:
    """It cuts the seconds off to milliseconds in floating point."""
    assert int(float(str(sample_time(timestamp_ns))) * 1000) == timestamp_ns // 1_000_000


def test_a_sparkline_goes_from_the_least_to_the_greatest() -> None:
    assert [ord(bar) - 0x2581 for bar in sparkline([0.0, 3.5, 7.0])] == [0, 4, 7]
    assert sparkline([1.0, None, 2.0])[1] == " "
    assert sparkline([]) == sparkline([None]) == ""


def test_columns_of_numbers_are_right_aligned() -> None:
    assert table(["run", "n"], [["a", "1"], ["long", "-2.5"]]) == "run      n\na        1\nlong  -2.5\n"


def test_a_listener_with_tls_and_credentials_is_asked_with_them(
    start_exporter: StartExporter, tmp_path: Path
) -> None:
    authority = Authority.found(tmp_path)
    certificate, key = authority.issue("server")
    web = write_web_config(
        tmp_path / "web.yml",
        tls_server_config={"cert_file": str(certificate), "key_file": str(key)},
        basic_auth_users={"prometheus": bcrypt_hash("secret")},
    )
    ingest = write_web_config(tmp_path / "otlp.yml", bearer_tokens={"trainer": token_digest("token")})
    exporter = start_exporter(
        "--web-config", str(web), "--otlp-web-config", str(ingest), ca_file=authority.ca_file
    )
    (tmp_path / "password").write_text("secret\n")
    (tmp_path / "token").write_text("token\n")
    known: list[str | Path] = [
        "--ca-file",
        authority.ca_file,
        "--user",
        "prometheus",
        "--password-file",
        tmp_path / "password",
    ]
    addresses = ["--url", exporter.metrics, "--otlp-url", exporter.otlp]
    done = asyncrl("doctor", *addresses, *known, "--otlp-token-file", tmp_path / "token")
    assert done.returncode == 0, done.stdout
    allowed = asyncrl("history", "--url", exporter.metrics, *known)
    assert (allowed.returncode, allowed.stderr) == (0, "")
    refused = asyncrl("history", "--url", exporter.metrics, "--ca-file", authority.ca_file)
    assert refused.returncode == 2
    assert "/api/v1/runs answered 401" in refused.stderr
    untrusted = asyncrl("history", "--url", exporter.metrics)
    assert "certificate verify failed" in untrusted.stderr
    assert untrusted.stderr.endswith("; give the certificate of its authority with --ca-file\n")
    plain, secret = exporter.metrics.replace("https", "http"), exporter.otlp.replace("http", "https")
    ca: list[str | Path] = ["--ca-file", authority.ca_file]
    cases: tuple[tuple[list[str | Path], str], ...] = (
        (["doctor", "--url", plain, "--otlp-url", exporter.otlp, *known], "speaks TLS: ask for https://"),
        (["doctor", "--url", exporter.metrics, "--otlp-url", secret, *known], "is this http://?"),
        (
            ["history", "--url", exporter.metrics.replace("127.0.0.1", "localhost"), *known],
            "name it as its certificate does",
        ),
        (["history", "--url", exporter.metrics, *ca], "give --user and --password-file, or --token-file"),
        (["doctor", *addresses, *known], "give --otlp-token-file, or --user and --password-file"),
    )
    for arguments, hint in cases:
        done = asyncrl(*arguments)
        assert f" {hint}\n" in done.stdout + done.stderr


def test_a_listener_that_wants_a_client_certificate_is_named(
    start_exporter: StartExporter, tmp_path: Path
) -> None:
    authority = Authority.found(tmp_path)
    certificate, key = authority.issue("server")
    tls = {"cert_file": str(certificate), "key_file": str(key), "client_ca_file": str(authority.ca_file)}
    web = write_web_config(
        tmp_path / "web.yml", tls_server_config={**tls, "client_auth_type": "RequireAndVerifyClientCert"}
    )
    exporter = start_exporter("--otlp-web-config", str(web))
    addresses = ("--url", exporter.metrics, "--otlp-url", exporter.otlp)
    done = asyncrl("doctor", *addresses, "--ca-file", authority.ca_file)
    assert "want a client certificate" in done.stdout, done.stdout


def test_history_over_http_as_openmetrics_is_one_text_per_page(filled: StartedExporter) -> None:
    url = f"{filled.metrics}/api/v1/runs/r/versions"
    first = requests.get(url, params={"format": "openmetrics", "limit": "3"}, timeout=WATCHDOG_SECONDS)
    assert first.headers["x-next-cursor"] == "1.2"
    assert first.headers["content-type"].startswith("application/openmetrics-text")
    assert first.text.count("asyncrl_policy_loss{") == 2
    assert first.text.endswith("# EOF\n")
    refused = requests.get(url, params={"format": "xml"}, timeout=WATCHDOG_SECONDS)
    assert (refused.status_code, refused.text) == (
        400,
        "format must be json, csv or openmetrics, got 'xml'\n",
    )
