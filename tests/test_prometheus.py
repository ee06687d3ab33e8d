"""The tool itself: what the real Prometheus reads from a page is what the page says."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.prometheus import check_metrics, require_binary, run_prometheus

PAGE = """\
# HELP served_scrapes_total Scrapes that this page has served.
# TYPE served_scrapes_total counter
served_scrapes_total{server="test"} %d
"""


class ScrapeCounter(BaseHTTPRequestHandler):
    """Serves PAGE with the number of the request in it."""

    served = 0

    def do_GET(self) -> None:
        type(self).served += 1
        body = (PAGE % self.served).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def page_url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), ScrapeCounter) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_every_scrape_of_a_page_is_read_with_its_value(page_url: str, tmp_path: Path) -> None:
    with run_prometheus(tmp_path, [page_url], interval_seconds=0.2) as prometheus:
        prometheus.wait_for("served_scrapes_total >= 3")
        (series,) = prometheus.query('served_scrapes_total{server="test"}[1h]')
    values = [float(value) for _, value in series["values"]]
    assert values == [float(scrape) for scrape in range(1, len(values) + 1)]


def test_promtool_passes_a_clean_page_and_names_what_is_wrong() -> None:
    assert check_metrics(PAGE % 1) == ""
    assert "counter" in check_metrics(PAGE.replace("_total", "") % 1)


def test_a_missing_program_skips_here_and_fails_where_all_is_required(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ASYNCRL_REQUIRE_ALL", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no-such-program is not installed"):
        require_binary("no-such-program")
    monkeypatch.setenv("ASYNCRL_REQUIRE_ALL", "1")
    with pytest.raises(pytest.fail.Exception, match="no-such-program is not installed"):
        require_binary("no-such-program")
