"""The exporter beside a run: a child process that is restarted when it dies, or one that listens there already.

listen answers GET /api/v1/runs?  -- yes -->  shared: used, never stopped; own child when it goes away
                                  -- no  -->  own: `python -P -m exporter ...`; again when it exits
"""

import asyncio
import ctypes
import errno
import json
import os
import signal
import sys
import time
from asyncio.subprocess import Process
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import requests

from runtime.config import ExporterAddresses
from runtime.errors import ExporterStartError
from runtime.notice import notice

_START_SECONDS = 60.0
_PROBE_SECONDS = 3.0
_POLL_SECONDS = 0.25
_MISSED_PROBES = 3
_RESTART_SECONDS = 1.0
_STOP_SECONDS = 15.0
_LONGEST_SCRAPE_WAIT_SECONDS = 60.0
_PR_SET_PDEATHSIG = 1
_GUARDED = "If an exporter with TLS or credentials is there, send to it: --set telemetry.endpoints=[URL]"
"""It is not shared: what does not let us in is not seen to be an exporter."""


class Endpoints(NamedTuple):
    """Base URLs, with the ports that were chosen."""

    metrics: str
    otlp: str


class ExporterProcess:
    """Starts, watches and stops the exporter. `owned` is false while another run's exporter is shared."""

    def __init__(self, addresses: ExporterAddresses, folder: Path) -> None:
        self._addresses = addresses
        self._folder = folder
        self._child: Process | None = None

    @property
    def owned(self) -> bool:
        return self._child is not None

    async def start(self) -> Endpoints:
        """Returns once it listens; `endpoints.json` in the folder says where. Raises ExporterStartError."""
        shared = _endpoints(self._addresses)
        if not await _is_exporter(shared.metrics):
            return await self._start_own()
        if not await _accepts_otlp(shared.otlp):
            raise ExporterStartError(
                f"exporter.listen {self._addresses.listen} is held by an exporter, but exporter.otlp "
                f"{self._addresses.otlp} takes no telemetry; give the address of its --otlp. {_GUARDED}"
            )
        (self._folder / "endpoints.json").write_text(json.dumps(shared._asdict()) + "\n")
        notice(f"sharing the exporter at {shared.metrics}; its journal is not in this run's folder")
        return shared

    async def supervise(self) -> None:
        """Runs until cancelled. What replaces a lost exporter listens on the same ports, with the same journal."""
        while True:
            await self._lost()
            self._child = None
            await asyncio.sleep(_RESTART_SECONDS)
            # A port not free yet, or a start that failed, is the next round's business: telemetry waits meanwhile.
            with suppress(ExporterStartError):
                await self.start()
                if self.owned:
                    notice(f"the exporter had gone; a new one goes on, with {self._folder / 'journal'}")

    async def published(self, run_id: str) -> None:
        """Returns when the run's last window is sealed and, if anybody scrapes, a scrape has followed."""
        url = _endpoints(self._addresses).metrics
        deadline = time.monotonic() + 30.0
        answer = await _get_runs(url)
        if answer is not None and not _sealed(answer, run_id):
            notice("waiting for the last version to be sealed (Ctrl-C skips)")
        while answer is None or not _sealed(answer, run_id):
            if answer is not None:
                deadline = min(deadline, time.monotonic() + answer["grace_seconds"] + 5.0)
            if time.monotonic() > deadline:
                return
            await asyncio.sleep(_POLL_SECONDS)
            answer = await _get_runs(url)
        interval_seconds = answer["scrapes"]["interval_seconds"]
        if interval_seconds is None:
            return
        seen = answer["scrapes"]["count"]
        patience_seconds = min(2 * interval_seconds, _LONGEST_SCRAPE_WAIT_SECONDS)
        notice(f"waiting for a scrape of the last version, {patience_seconds:.0f} s at most (Ctrl-C skips)")
        deadline = time.monotonic() + patience_seconds
        while time.monotonic() < deadline:
            await asyncio.sleep(_POLL_SECONDS)
            answer = await _get_runs(url)
            if answer is not None and answer["scrapes"]["count"] > seen:
                return

    async def stop(self) -> None:
        """Ends an own exporter: SIGTERM, which flushes, and SIGKILL if that takes too long."""
        child, self._child = self._child, None
        if child is None or child.returncode is not None:
            return
        child.terminate()
        try:
            await asyncio.wait_for(child.wait(), _STOP_SECONDS)
        except TimeoutError:
            child.kill()
            await child.wait()

    async def _lost(self) -> None:
        if self._child is not None:
            await self._child.wait()
            return
        missed = 0
        while missed < _MISSED_PROBES:
            await asyncio.sleep(_POLL_SECONDS)
            missed = 0 if await _is_exporter(_endpoints(self._addresses).metrics) else missed + 1

    async def _start_own(self) -> Endpoints:
        endpoints_file = self._folder / "endpoints.json"
        endpoints_file.unlink(missing_ok=True)
        log_file = self._folder / "exporter.log"
        with log_file.open("ab") as log:
            # -P: a folder named `exporter` in the user's working directory must not be taken for ours.
            child = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "exporter"),
                *("--listen", self._addresses.listen, "--otlp", self._addresses.otlp),
                *("--data-dir", str(self._folder / "journal"), "--endpoints-file", str(endpoints_file)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in the terminal is for the run; it stops the exporter last
                preexec_fn=_end_with_parent,
            )
        self._child = child
        deadline = time.monotonic() + _START_SECONDS
        while not endpoints_file.exists():
            if child.returncode is not None or time.monotonic() > deadline:
                await self.stop()
                raise ExporterStartError(_reason(log_file))
            await asyncio.sleep(0.05)
        endpoints = Endpoints(**json.loads(endpoints_file.read_text()))
        # From now on these ports are the run's: every actor sends there, whoever serves them.
        self._addresses = ExporterAddresses(
            listen=endpoints.metrics.removeprefix("http://"), otlp=endpoints.otlp.removeprefix("http://")
        )
        return _endpoints(self._addresses)


def _end_with_parent() -> None:
    """In the child: SIGTERM, on which it flushes and stops, when the run is gone, be it by SIGKILL. Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _endpoints(addresses: ExporterAddresses) -> Endpoints:
    """Where a client on this machine reaches them: the wildcard addresses are not for connecting."""
    urls = [
        "http://" + address.replace("0.0.0.0:", "127.0.0.1:", 1).replace("[::]:", "[::1]:", 1)
        for address in (addresses.listen, addresses.otlp)
    ]
    return Endpoints(*urls)


async def _get_runs(metrics_url: str) -> dict[str, Any] | None:
    """The answer of GET /api/v1/runs; None if no exporter answers there."""

    def get() -> Any:
        return requests.get(f"{metrics_url}/api/v1/runs", timeout=_PROBE_SECONDS).json()

    try:
        answer = await asyncio.to_thread(get)
    except (requests.RequestException, ValueError):
        return None
    return answer if isinstance(answer, dict) and "runs" in answer and "scrapes" in answer else None


async def _is_exporter(metrics_url: str) -> bool:
    return not metrics_url.endswith(":0") and await _get_runs(metrics_url) is not None


async def _accepts_otlp(otlp_url: str) -> bool:
    def post() -> bool:
        # An empty body is an empty request: valid, and nothing is stored.
        headers = {"Content-Type": "application/x-protobuf"}
        return requests.post(f"{otlp_url}/v1/traces", data=b"", headers=headers, timeout=_PROBE_SECONDS).ok

    try:
        return await asyncio.to_thread(post)
    except requests.RequestException:
        return False


def _sealed(answer: dict[str, Any], run_id: str) -> bool:
    """Nothing of the run is left to seal. A run that the exporter has never heard of has nothing either."""
    runs = [run for run in answer["runs"] if run["run"] == run_id]
    return all(run["open_windows"] == 0 and run["status"] != "running" for run in runs)


def _reason(log_file: Path) -> str:
    """The exporter's last line. It names its flag; here the same is a setting."""
    lines = [line for line in log_file.read_text(errors="replace").split("\n") if line.strip()]
    if not lines:
        return "the exporter did not start and said nothing"
    reason = lines[-1].removeprefix("asyncrl exporter: ")
    for key in ("listen", "otlp"):
        reason = reason.replace(f"(--{key})", f"(--set exporter.{key}=HOST:PORT)")
        reason = reason.replace(f"--{key} ", f"exporter.{key} ")
    if os.strerror(errno.EADDRINUSE) in reason:
        reason += f". {_GUARDED}"
    return reason
