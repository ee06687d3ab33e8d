"""An exporter process to be measured: started on free ports, kept to given cores, asked what it has used."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import requests

PROTOBUF = "application/x-protobuf"
_READY_SECONDS = 600.0


@dataclass(kw_only=True)
class Started:
    """A running exporter. `metrics` and `otlp` are its base URLs."""

    process: subprocess.Popen[bytes]
    data_dir: Path
    metrics: str
    otlp: str
    ready_seconds: float
    """From the start of the process until /readyz."""
    session: requests.Session

    def post(self, body: bytes, signal_name: str = "traces") -> None:
        """One request; anything but a full success ends the measurement."""
        response = self.session.post(
            f"{self.otlp}/v1/{signal_name}", data=body, headers={"content-type": PROTOBUF}, timeout=600
        )
        if response.status_code != 200 or response.content:
            raise RuntimeError(f"{response.status_code}: {response.content!r}")

    def scrape(self) -> bytes:
        """The page as text, not compressed."""
        response = self.session.get(
            f"{self.metrics}/metrics", headers={"accept-encoding": "identity"}, timeout=600
        )
        response.raise_for_status()
        return response.content

    def value(self, series: str) -> float:
        """The one sample of `series`, as the page writes it; 0 where there is none."""
        for line in self.scrape().decode().splitlines():
            if line.startswith(f"{series} "):
                return float(line.rpartition(" ")[2])
        return 0.0

    @property
    def cpu_seconds(self) -> float:
        """CPU time of the process so far, all its threads."""
        return time.clock_gettime(_cpu_clock(self.process.pid))

    @property
    def memory_mib(self) -> float:
        """Resident memory."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def stop(self) -> None:
        """SIGTERM, and wait."""
        self.session.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=600)


@contextlib.contextmanager
def exporter(*flags: str, data_dir: Path | None = None, cores: set[int] | None = None) -> Iterator[Started]:
    """An exporter that is ready, and ends with the block. `cores`: those it may run on; None: all."""
    with contextlib.ExitStack() as stack:
        folder = data_dir or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        endpoints = folder / "endpoints.json"
        endpoints.unlink(missing_ok=True)
        places = ["--listen", "127.0.0.1:0", "--otlp", "127.0.0.1:0", "--data-dir", str(folder)]
        began = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "exporter", *places, "--endpoints-file", str(endpoints), *flags],
            env={"PYTHONPATH": os.getcwd()},
            stderr=subprocess.DEVNULL,
        )
        stack.callback(process.wait)
        stack.callback(process.kill)
        if cores is not None:
            os.sched_setaffinity(process.pid, cores)
        while not endpoints.exists():
            if process.poll() is not None or time.monotonic() - began > _READY_SECONDS:
                raise RuntimeError(f"the exporter did not start: {process.args!r}")
            time.sleep(0.005)
        urls = json.loads(endpoints.read_text())
        session = stack.enter_context(requests.Session())
        while session.get(f"{urls['metrics']}/readyz", timeout=60).status_code != 200:
            time.sleep(0.005)
        yield Started(
            process=process,
            data_dir=folder,
            metrics=urls["metrics"],
            otlp=urls["otlp"],
            ready_seconds=time.monotonic() - began,
            session=session,
        )
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=600)


def _cpu_clock(pid: int) -> int:
    """clock_getcpuclockid(3): nanoseconds where /proc has ticks of 10 ms."""
    return (~pid << 3) | 2
