"""Every target of every panel of every board returns data of runs that say everything there is to say, and counts
once what two exporters publish."""

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
from tests.dashboards.every_family import FOREIGN, OURS, REPORTED, EveryFamily
from tests.dashboards.many_rollouters import MANY, SLOTS, ManyRollouters
from tests.exporter.conftest import StartExporter
from tests.otlp_sink import OtlpSink
from tests.prometheus import Alerting, run_prometheus
from tests.wire import WATCHDOG_SECONDS

DCGM_PAGE = Path(__file__).with_name("dcgm_page.txt")

VERSIONS = 14
MANY_EVERY = 3
"""The run with many rollouters sends a version for so many of the others."""
VERSION_SECONDS = 0.7
SCRAPE_SECONDS = 1.0
RULES_DIVISOR = 60
"""Of the durations of rules: they are evaluated every second."""
RATE_WINDOW = "8s"
"""Eight scrapes."""

WITHOUT_DATA_TOO = {query.expr for query in QUERIES.values() if query.optional}

NOT_HERE = {"Time until a listener's certificate ends": "Prometheus scrapes these over plain HTTP"}


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


class _DcgmExporter(HTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A scrape that has been given up is no error of ours."""


@contextmanager
def dcgm_exporter() -> Iterator[str]:
    """The recorded page of a dcgm-exporter, served at the URL."""
    server = _DcgmExporter(("127.0.0.1", 0), _DcgmPage)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
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
            # To Prometheus, one exporter under two names is two that publish the same runs.
            [exporter.metrics, exporter.metrics.replace("127.0.0.1", "localhost"), gpus],
            interval_seconds=SCRAPE_SECONDS,
            # Nobody is told; the discard port answers nothing.
            alerting=Alerting(rules=rules, alertmanager="http://127.0.0.1:9", lookback_seconds=300),
        ) as prometheus:
            begin = time.time()
            runs, many = EveryFamily(exporter.otlp), ManyRollouters(exporter.otlp)
            for version in range(1, VERSIONS + 1):
                runs.send(version)
                if version % MANY_EVERY == 0:
                    many.send(version // MANY_EVERY)
                time.sleep(VERSION_SECONDS)
            prometheus.wait_for(f'count(asyncrl_param_version{{run="{OURS}"}}) == 2')
            # For long enough that a step of the range falls into it.
            prometheus.wait_for('ALERTS{alertstate="firing",run!=""} offset 2s')
            for run, last in ((OURS, VERSIONS), (MANY, VERSIONS // MANY_EVERY)):
                prometheus.wait_for(f'asyncrl_version_complete{{run="{run}",param_version="{last}"}}')
            yield Watched(prometheus=prometheus.url, begin=begin, end=time.time())


@pytest.mark.parametrize("board", BOARDS)
def test_every_target_of_every_panel_returns_data(board: str, watched: Watched) -> None:
    for panel in panels(BOARDS[board]):
        texts = [target["expr"] for target in panel.get("targets", [])]
        empty = [text for text in texts if not watched.values(as_sent(text))]
        assert not set(empty) - WITHOUT_DATA_TOO, panel["title"]
        assert not texts or len(empty) < len(texts) or panel["title"] in NOT_HERE, panel["title"]


# What of the rollouters' board is per rollouter and of the newest version: 64 of them have such series.
OF_FEW_ROLLOUTERS = {
    QUERIES[f"rollouters.{what}"].expr
    for what in ("most_idle", "most_unused", "each_idle", "each_utilization", "each_active", "each_version")
}


def test_a_run_of_more_rollouters_than_have_series_is_on_every_other_panel_of_theirs(
    watched: Watched,
) -> None:
    for panel in panels(BOARDS["rollouters"]):
        for target in panel.get("targets", []):
            found = watched.values(as_sent(target["expr"], run=MANY))
            assert bool(found) == (target["expr"] not in OF_FEW_ROLLOUTERS), panel["title"]


@pytest.mark.parametrize(
    ("query", "run", "value"),
    [
        ("rollouters.serving", OURS, 2),
        ("rollouters.serving", MANY, len(SLOTS)),
        ("rollouters.capacity", MANY, 8 * len(SLOTS)),
        ("rollouters.run_utilization", MANY, 0.5),
        ("rollouters.idle", MANY, 0.25),
        ("rollouters.unused_max", MANY, 0.5),
        ("rollouters.time_by_state", MANY, 1),
        ("staleness.queued", OURS, 4),
        ("staleness.queue_fill", OURS, 10 / 32),
        ("staleness.limit", OURS, 4),
        ("trainer.wait", OURS, 0.1 / 0.34),
        ("trainer.idle", FOREIGN, REPORTED),
        ("rollouters.unused", FOREIGN, 1 - REPORTED),
        ("staleness.staleness_max", FOREIGN, REPORTED),
    ],
)
def test_a_run_that_two_exporters_publish_counts_once(
    watched: Watched, query: str, run: str, value: float
) -> None:
    """Whether it is one of ours, or one whose trainer reports what it computed itself."""
    found = watched.values(as_sent(QUERIES[query].expr, run=run))
    assert found[-1] == pytest.approx(value)


def as_sent(text: str, run: str = ALL["run"]) -> str:
    """By a board that shows these runs."""
    return Expression(where="", text=text).given(ALL | {"run": run}, rate=RATE_WINDOW, window="10m")


def test_what_nobody_sent_has_no_data(watched: Watched) -> None:
    """Or the tests above would show nothing."""
    assert not watched.values("asyncrl_no_such_family")
    assert not watched.values('asyncrl_param_version{run="nobody"}')
