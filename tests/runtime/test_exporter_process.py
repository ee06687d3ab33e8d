"""The exporter beside a run: started, shared, replaced, refused. Real processes on free ports."""

import asyncio
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests

from runtime.config import ExporterAddresses
from runtime.errors import ExporterStartError
from runtime.exporter_process import Endpoints, ExporterProcess
from tests.processes import find

WATCHDOG_SECONDS = 120.0


def run(scenario: Coroutine[Any, Any, None]) -> None:
    async def watched() -> None:
        await asyncio.wait_for(scenario, WATCHDOG_SECONDS)

    asyncio.run(watched())


def anywhere(folder: Path) -> ExporterProcess:
    folder.mkdir(exist_ok=True)
    return ExporterProcess(ExporterAddresses(listen="127.0.0.1:0", otlp="127.0.0.1:0"), folder)


def at(endpoints: Endpoints, folder: Path) -> ExporterProcess:
    folder.mkdir(exist_ok=True)
    addresses = [url.removeprefix("http://") for url in endpoints]
    return ExporterProcess(ExporterAddresses(listen=addresses[0], otlp=addresses[1]), folder)


def answers(url: str) -> bool:
    try:
        return requests.get(f"{url}/readyz", timeout=5).ok
    except requests.RequestException:
        return False


async def until_it_answers(url: str) -> None:
    answered = False
    while not answered:
        await asyncio.sleep(0.05)
        answered = await asyncio.to_thread(answers, url)


def test_own_exporter_says_where_it_listens_and_is_gone_after_stop(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def scenario() -> None:
        exporter = anywhere(tmp_path)
        endpoints = await exporter.start()
        assert exporter.owned
        assert json.loads((tmp_path / "endpoints.json").read_text()) == endpoints._asdict()
        assert answers(endpoints.metrics)
        assert (tmp_path / "journal").is_dir()
        await exporter.published("a run without a record")
        assert capsys.readouterr().err == "", "no word about a wait without one"
        await exporter.stop()
        assert not answers(endpoints.metrics)

    run(scenario())


def test_killed_exporter_is_replaced_on_the_same_ports(tmp_path: Path) -> None:
    async def scenario() -> None:
        exporter = anywhere(tmp_path)
        endpoints = await exporter.start()
        supervision = asyncio.create_task(exporter.supervise())
        os.kill(find(os.getpid(), f"{sys.executable} -P -m exporter"), signal.SIGKILL)
        await until_it_answers(endpoints.metrics)
        supervision.cancel()
        await asyncio.gather(supervision, return_exceptions=True)
        await exporter.stop()
        assert not answers(endpoints.metrics)

    run(scenario())


def test_healthy_exporter_is_shared_never_stopped_and_replaced_when_it_goes_away(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def scenario() -> None:
        first = anywhere(tmp_path / "first")
        endpoints = await first.start()
        second = at(endpoints, tmp_path / "second")
        assert await second.start() == endpoints
        shared = f"asyncrl run: sharing the exporter at {endpoints.metrics}; its journal is not in this run's folder"
        assert capsys.readouterr().err == shared + "\n"
        assert not second.owned
        await second.stop()
        assert answers(endpoints.metrics)
        supervision = asyncio.create_task(second.supervise())
        await first.stop()
        await until_it_answers(endpoints.metrics)
        assert second.owned
        said = ""
        while not said:
            await asyncio.sleep(0.05)
            said = capsys.readouterr().err
        journal = tmp_path / "second" / "journal"
        assert said == f"asyncrl run: the exporter had gone; a new one goes on, with {journal}\n"
        supervision.cancel()
        await asyncio.gather(supervision, return_exceptions=True)
        await second.stop()

    run(scenario())


@contextmanager
def foreign_server() -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"hi")

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("key", ["listen", "otlp"])
def test_port_held_by_something_else_is_refused_by_name(tmp_path: Path, key: str) -> None:
    async def scenario() -> None:
        with foreign_server() as port:
            addresses = {"listen": "127.0.0.1:0", "otlp": "127.0.0.1:0", key: f"127.0.0.1:{port}"}
            exporter = ExporterProcess(ExporterAddresses(**addresses), tmp_path)
            with pytest.raises(ExporterStartError, match=f"{port}.*{key}") as caught:
                await exporter.start()
            assert "\n" not in str(caught.value)
            # What is there may be an exporter that does not say so without credentials.
            assert "telemetry.endpoints" in str(caught.value)

    run(scenario())


def test_exporter_whose_otlp_is_elsewhere_cannot_be_shared(tmp_path: Path) -> None:
    async def scenario() -> None:
        first = anywhere(tmp_path)
        endpoints = await first.start()
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            elsewhere = endpoints._replace(otlp=f"http://127.0.0.1:{unused.getsockname()[1]}")
            with pytest.raises(ExporterStartError, match=r"takes no telemetry.*telemetry\.endpoints"):
                await at(elsewhere, tmp_path / "second").start()
        await first.stop()

    run(scenario())
