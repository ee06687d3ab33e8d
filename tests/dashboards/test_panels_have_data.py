"""Every target of every panel of every board returns data of two runs that say everything there is to say."""

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import requests

from dashboards.queries import QUERIES
from dashboards.rules import rules_yaml
from tests.dashboards.board_files import ALL, BOARDS, Expression, panels
from tests.dashboards.every_family import EveryFamily
from tests.exporter.conftest import StartExporter
from tests.otlp_sink import OtlpSink
from tests.prometheus import Alerting, run_prometheus
from tests.wire import WATCHDOG_SECONDS

DCGM_PAGE = Path(__file__).with_name("dcgm_page.txt")

VERSIONS = 14
VERSION_SECONDS = 0.5
SCRAPE_SECONDS = 0.5
RULES_DIVISOR = 60
"""Of the durations of rules: they are evaluated every second."""
RATE_WINDOW = "3s"
"""Six scrapes."""

WITHOUT_DATA_TOO = {query.expr for query in QUERIES.values() if query.optional}


@dataclass(frozen=True, kw_only=True, slots=True)
class Watched:
    """A Prometheus that has seen the runs, and when, in unix seconds."""

    prometheus: str
    begin: float
    end: float

    def values(self, expr: str) -> list[float]:
        """Every finite value of the expression within that time."""
        parameters: dict[str, str | float] = {
            "query": expr,
            "start": self.begin,
            "end": self.end,
            "step": SCRAPE_SECONDS,
        }
        answer = requests.get(
            f"{self.prometheus}/api/v1/query_range", params=parameters, timeout=WATCHDOG_SECONDS
        ).json()
        assert answer["status"] == "success", (expr, answer)
        values = [float(value) for series in answer["data"]["result"] for _, value in series["values"]]
        return [value for value in values if math.isfinite(value)]


class _DcgmPage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        page = DCGM_PAGE.read_bytes()
        self.send_response(200)
        self.send_header("content-type", "text/plain; version=0.0.4")
        self.send_header("content-length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Quiet."""


@contextmanager
def dcgm_exporter() -> Iterator[str]:
    """The recorded page of a dcgm-exporter, served at the URL."""
    server = HTTPServer(("127.0.0.1", 0), _DcgmPage)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def watched(
    start_module_exporter: StartExporter, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("prometheus")
    with OtlpSink() as sink, dcgm_exporter() as gpus:
        exporter = start_module_exporter("--grace", "0.5", "--push", sink.url, "--forward-spans", sink.url)
        rules = folder / "rules.yaml"
        rules.write_text(rules_yaml(RULES_DIVISOR), encoding="utf-8")
        with run_prometheus(
            folder,
            [exporter.metrics, gpus],
            interval_seconds=SCRAPE_SECONDS,
            # Nobody is told; the discard port answers nothing.
            alerting=Alerting(rules=rules, alertmanager="http://127.0.0.1:9", lookback_seconds=300),
        ) as prometheus:
            begin = time.time()
            runs = EveryFamily(exporter.otlp)
            for version in range(1, VERSIONS + 1):
                runs.send(version)
                time.sleep(VERSION_SECONDS)
            prometheus.wait_for('ALERTS{alertstate="firing",run!=""}')
            prometheus.wait_for(f'asyncrl_version_complete{{param_version="{VERSIONS}"}}')
            yield Watched(prometheus=prometheus.url, begin=begin, end=time.time())


@pytest.mark.parametrize("board", BOARDS)
def test_every_target_of_every_panel_returns_data(board: str, watched: Watched) -> None:
    for panel in panels(BOARDS[board]):
        texts = [target["expr"] for target in panel.get("targets", [])]
        empty = [text for text in texts if not watched.values(as_sent(text))]
        assert not set(empty) - WITHOUT_DATA_TOO, panel["title"]
        assert not texts or len(empty) < len(texts), panel["title"]


def as_sent(text: str) -> str:
    """By a board that shows every run."""
    return Expression(where="", text=text).given(ALL, rate=RATE_WINDOW, window="10m")


def test_what_nobody_sent_has_no_data(watched: Watched) -> None:
    """Or the test above would show nothing."""
    assert not watched.values("asyncrl_no_such_family")
    assert not watched.values('asyncrl_param_version{run="nobody"}')
