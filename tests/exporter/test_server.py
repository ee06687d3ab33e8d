"""The running exporter over HTTP: routes, limits, negotiation, start and stop."""

import csv
import gzip
import io
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
import requests

from tests.exporter.conftest import ROOT, StartedExporter, StartExporter
from tests.page import check_page
from tests.wire import WATCHDOG_SECONDS, Emitter, Scrape, post_raw, scrape_until

JSON = "application/json"


def get(url: str, **headers: str) -> requests.Response:
    return requests.get(url, headers=headers, timeout=WATCHDOG_SECONDS, allow_redirects=False)


def connect(url: str) -> socket.socket:
    address = urlsplit(url)
    assert address.hostname
    assert address.port
    return socket.create_connection((address.hostname, address.port), timeout=WATCHDOG_SECONDS)


def good_post(exporter: StartedExporter, source: str = "t0") -> int:
    emitter = Emitter(exporter.otlp, source=source)
    return emitter.post(emitter.weight_sync(0, 0)).status


def test_probes_answer_with_an_empty_body(exporter: StartedExporter) -> None:
    for path in ("/healthz", "/readyz"):
        answer = get(exporter.metrics + path)
        assert (answer.status_code, answer.content) == (200, b"")


def test_the_front_page_links_to_what_there_is(exporter: StartedExporter) -> None:
    page = get(exporter.metrics + "/")
    assert page.headers["content-type"].startswith("text/html")
    for path in ("/metrics", "/api/v1/runs", "/healthz", "/readyz"):
        assert f'href="{path}"' in page.text
        assert get(exporter.metrics + path).status_code == 200


def test_wrong_paths_and_methods_are_said_in_plain_text(exporter: StartedExporter) -> None:
    for answer, status in [
        (get(exporter.metrics + "/nothing"), 404),
        (get(exporter.otlp + "/metrics"), 404),
        (get(exporter.otlp + "/v1/traces"), 405),
        (requests.post(exporter.metrics + "/metrics", timeout=WATCHDOG_SECONDS), 405),
        (requests.post(exporter.metrics + "/v1/traces", timeout=WATCHDOG_SECONDS), 404),
    ]:
        assert answer.status_code == status
        assert answer.headers["content-type"].startswith("text/plain")
        assert "server" not in answer.headers


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("*/*", "text/plain; version=0.0.4; charset=utf-8"),
        (
            "application/openmetrics-text;version=1.0.0",
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        ),
        ("application/openmetrics-text;version=7", "text/plain; version=0.0.4; charset=utf-8"),
    ],
)
def test_c36_the_content_type_matches_the_body(
    exporter: StartedExporter, accept: str, content_type: str
) -> None:
    assert good_post(exporter) == 200
    scrape = Scrape(exporter.metrics, accept=accept)
    assert scrape.content_type == content_type
    check_page(scrape.text, scrape.content_type)


def test_c36_head_and_a_trailing_slash_work(exporter: StartedExporter) -> None:
    head = requests.head(exporter.metrics + "/metrics", timeout=WATCHDOG_SECONDS)
    assert (head.status_code, head.content) == (200, b"")
    assert int(head.headers["content-length"]) > 0
    slashed = requests.get(exporter.metrics + "/metrics/", timeout=WATCHDOG_SECONDS)
    assert slashed.text.startswith("# HELP")


def test_a_page_is_compressed_where_that_is_accepted(exporter: StartedExporter) -> None:
    packed = requests.get(
        exporter.metrics + "/metrics",
        headers={"accept-encoding": "gzip"},
        timeout=WATCHDOG_SECONDS,
        stream=True,
    )
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.raw.read()).startswith(b"# HELP")
    plain = get(exporter.metrics + "/metrics", **{"accept-encoding": "gzip;q=0"})
    assert "content-encoding" not in plain.headers
    assert plain.headers["vary"] == "Accept, Accept-Encoding"


def test_parallel_scrapes_and_posts_do_not_disturb_each_other(exporter: StartedExporter) -> None:
    with ThreadPoolExecutor(max_workers=8) as pool:
        posts = [pool.submit(good_post, exporter, f"t{number}") for number in range(16)]
        scrapes = [pool.submit(Scrape, exporter.metrics) for _ in range(16)]
        for scrape in scrapes:
            check_page(scrape.result().text, scrape.result().content_type)
        assert [post.result() for post in posts] == [200] * 16


def in_chunks(count: int) -> Iterator[bytes]:
    for _ in range(count):
        yield bytes(65_536)


def test_c95_every_way_of_sending_too_much_is_413_and_good_posts_go_on(start_exporter: StartExporter) -> None:
    exporter = start_exporter("--max-body-bytes", "100000")
    too_much: list[tuple[bytes | Iterator[bytes], str]] = [
        (bytes(300_000), ""),
        (in_chunks(20), ""),
        (gzip.compress(bytes(100_000_000)), "gzip"),
    ]
    for body, encoding in too_much:
        answer = post_raw(exporter.otlp, body, encoding=encoding)
        assert answer.status == 413
        assert b"limit of 100000 bytes" in answer.body
        assert good_post(exporter) == 200
    page = Scrape(exporter.metrics)
    assert page.value("asyncrl_exporter_requests_total", signal="traces", status=413) == 3
    assert page.value("asyncrl_exporter_requests_total", signal="traces", status=200) == 3


def test_bad_bodies_are_refused_with_a_status_message(exporter: StartedExporter) -> None:
    truncated = gzip.compress(b"{}" * 100)[:-5]
    for body, content_type, encoding, status in [
        (b"{", JSON, "", 400),
        (b"[" * 100_000, JSON, "", 400),
        (b"\xff\xff", "application/x-protobuf", "", 400),
        (truncated, JSON, "gzip", 400),
        (b"{}", "text/plain", "", 415),
        (b"{}", JSON, "br", 415),
    ]:
        answer = post_raw(exporter.otlp, body, content_type=content_type, encoding=encoding)
        assert answer.status == status
        if content_type == JSON:
            assert json.loads(answer.body).keys() == {"code", "message"}
    assert post_raw(exporter.otlp, b"{}", content_type=JSON).status == 200
    assert post_raw(exporter.otlp, gzip.compress(b"{}"), content_type=JSON, encoding="gzip").status == 200
    assert post_raw(exporter.otlp, b"").status == 200


def test_c95_a_body_that_never_ends_holds_nobody_up(exporter: StartedExporter) -> None:
    head = b"POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{"
    slow = [connect(exporter.otlp) for _ in range(20)]
    for connection in slow:
        connection.sendall(head)
    assert good_post(exporter) == 200
    assert get(exporter.metrics + "/metrics").status_code == 200
    for connection in slow:
        connection.close()


def test_c24_a_post_whose_sender_hangs_up_before_the_answer_counts_once(exporter: StartedExporter) -> None:
    emitter = Emitter(exporter.otlp)
    spans = [emitter.train_step(1, 1, values={"policy_loss": 1.0}), emitter.weight_sync(1, 1)]
    body = emitter.request(*spans).SerializeToString()
    with connect(exporter.otlp) as connection:
        connection.sendall(
            b"POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-protobuf\r\n"
            b"content-length: %d\r\n\r\n%s" % (len(body), body)
        )
    retry = post_raw(exporter.otlp, body)
    assert (retry.status, retry.rejected) == (200, 0)
    assert Scrape(exporter.metrics).value("asyncrl_train_steps_total", run="r") == 1


def test_scrapes_are_counted_and_their_interval_observed(exporter: StartedExporter) -> None:
    runs = exporter.metrics + "/api/v1/runs"
    before = get(runs).json()
    assert before["scrapes"] == {"count": 0, "interval_seconds": None, "last_timestamp": None}
    assert before["grace_seconds"] == 1.0
    requests.head(exporter.metrics + "/metrics", timeout=WATCHDOG_SECONDS)  # shows nobody the values
    started = time.time()
    for _ in range(3):
        Scrape(exporter.metrics)
    after = get(runs).json()["scrapes"]
    assert after["count"] == 3
    assert after["interval_seconds"] > 0.0
    assert after["last_timestamp"] >= started - 1.0


def test_the_endpoints_file_names_the_chosen_ports(start_exporter: StartExporter, tmp_path: Path) -> None:
    exporter = start_exporter("--endpoints-file", str(tmp_path / "endpoints0.json"))
    urls = json.loads((tmp_path / "endpoints0.json").read_text(encoding="utf-8"))
    assert urls == {"metrics": exporter.metrics, "otlp": exporter.otlp}
    assert list(tmp_path.glob("*.part")) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_0_whoever_is_connected(
    exporter: StartedExporter, number: signal.Signals
) -> None:
    idle, half_head, half_body = (connect(exporter.metrics), connect(exporter.otlp), connect(exporter.otlp))
    half_head.sendall(b"POST /v1/traces HTTP/1.1\r\n")
    half_body.sendall(b"POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{")
    assert good_post(exporter) == 200
    code, said = exporter.stop(number)
    for connection in (idle, half_head, half_body):
        connection.close()
    assert code == 0
    restored, listening, stopped = said.splitlines()
    assert "restored" in restored
    assert listening.endswith(
        f" level=info event=listening metrics={exporter.metrics}/metrics otlp={exporter.otlp} "
        f"data_dir={exporter.data_dir}"
    )
    assert stopped.endswith(" level=info event=stopped")


def run_exporter(*flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "exporter", *flags],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=WATCHDOG_SECONDS,
        check=False,
    )


def test_a_port_in_use_is_named_and_ends_it_with_2(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        free = ["--listen", "127.0.0.1:0", "--otlp", "127.0.0.1:0", "--data-dir", str(tmp_path / "data")]
        for flag in ("--listen", "--otlp"):
            ended = run_exporter(*free, flag, address)
            assert ended.returncode == 2
            assert ended.stderr == (
                f"asyncrl exporter: cannot listen on {address} ({flag}): Address already in use; "
                "free the port or choose another\n"
            )
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--listen", "127.0.0.1:9000", "--otlp", "127.0.0.1:9000"], "listen and otlp must differ"),
        (["--grace", "-1"], "grace_seconds must be"),
        (["--config", "/nowhere/exporter.yaml"], "cannot read the configuration file"),
        (["--listen", "no-such-host.invalid:0"], "cannot listen on no-such-host.invalid:0"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(flags: list[str], complaint: str) -> None:
    ended = run_exporter(*flags)
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"asyncrl exporter: {complaint}")
    assert ended.stderr.count("\n") == 1


def test_an_endpoints_file_that_cannot_be_written_is_a_mistake(tmp_path: Path) -> None:
    free = ["--listen", "127.0.0.1:0", "--otlp", "127.0.0.1:0", "--data-dir", str(tmp_path / "data")]
    ended = run_exporter(*free, "--endpoints-file", str(tmp_path / "missing" / "endpoints.json"))
    assert ended.returncode == 2
    assert "cannot write the endpoints file" in ended.stderr.splitlines()[-1]
    assert run_exporter(*free, "--data-dir", "").returncode == 2


def test_help_names_every_flag() -> None:
    ended = run_exporter("--help")
    assert ended.returncode == 0
    for flag in ("--listen", "--otlp", "--data-dir", "--config", "--grace", "--endpoints-file"):
        assert flag in ended.stdout


def test_the_history_is_read_page_by_page_as_json_and_csv(exporter: StartedExporter) -> None:
    run = 'lab/"7" %2F \N{GRINNING FACE}'
    trainer = Emitter(exporter.otlp, run=run)
    for version in range(1, 6):
        assert trainer.post(*trainer.window(version, [{"policy_loss": float(version)}])).rejected == 0
    scrape_until(exporter.metrics, lambda page: page.value("asyncrl_policy_loss", run=run) == 5.0)
    url = f"{exporter.metrics}/api/v1/runs/{quote(run, safe='')}/versions"
    whole = get(url)
    assert whole.headers["content-type"] == JSON
    assert whole.json()["run"] == run
    losses = [version["metrics"]["policy_loss"] for version in whole.json()["versions"]]
    assert (losses, whole.json()["next"]) == ([1.0, 2.0, 3.0, 4.0, 5.0], None)

    seen, cursor = [], ""
    while cursor is not None:
        part = get(f"{url}?limit=2&cursor={cursor}").json()
        seen.append([version["param_version"] for version in part["versions"]])
        cursor = part["next"]
    assert seen == [[1, 2], [3, 4], [5]]

    some = get(f"{url}?from=2&to=3&format=csv")
    assert some.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(some.text)))
    assert [(row["param_version"], row["metrics.policy_loss"]) for row in rows] == [
        ("2", "2.0"),
        ("3", "3.0"),
    ]
    assert get(f"{url}?limit=4&format=csv").headers["x-next-cursor"] == "1.4"
    beyond = f"cursor={2**63}.1", f"cursor=1.{2**63}", f"cursor={10**30}.1", f"to={2**63}"
    for query in ("limit=0", "limit=x", "from=-1", "format=xml", "cursor=x", *beyond):
        refused = get(f"{url}?{query}")
        assert (refused.status_code, refused.headers["content-type"]) == (400, "text/plain; charset=utf-8")


def test_runs_are_listed_by_name(exporter: StartedExporter) -> None:
    for run in ("b", "a"):
        trainer = Emitter(exporter.otlp, run=run, source=run)
        trainer.post(*trainer.window(1, [{}]))
    scrape_until(exporter.metrics, lambda page: page.value("asyncrl_param_version", run="a") == 1)
    listed = get(exporter.metrics + "/api/v1/runs").json()["runs"]
    assert [(run["run"], run["status"], run["param_version"]) for run in listed] == [
        ("a", "running", 1),
        ("b", "running", 1),
    ]


def test_a_run_that_nobody_knows_has_no_versions(exporter: StartedExporter) -> None:
    answer = requests.get(f"{exporter.metrics}/api/v1/runs/none/versions", timeout=WATCHDOG_SECONDS)
    assert (answer.status_code, answer.text) == (
        404,
        "no run 'none'; /api/v1/runs lists those that are known\n",
    )


def test_a_second_signal_does_not_end_what_the_first_began(exporter: StartedExporter) -> None:
    for _ in range(2):
        exporter.process.send_signal(signal.SIGTERM)
        time.sleep(0.005)  # as a dying parent's threads send it
    code, said = exporter.stop(signal.SIGTERM)
    assert code in (0, -signal.SIGTERM), said
    assert "event=stopped" in said
