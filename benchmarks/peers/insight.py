"""rl-insight 0.3.0: how long emitting a step's values takes, and how many its hub takes per CPU second. Prints JSON.

Its server, which only tells where Prometheus and Tempo are, is a stub here; client and hub are its own.
"""

import json
import statistics
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import ray
import rl_insight
from rl_insight.client.ray_monitor_client import get_or_create_monitor_hub


class _Server(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def do_POST(self) -> None:
        self.do_GET()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Says nothing."""


def _cpu_seconds(process: str) -> float:
    """CPU time so far of the process with this title."""
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if command.read_bytes().startswith(process.encode()):
                return time.clock_gettime((~int(command.parent.name) << 3) | 2)
        except OSError:
            continue
    raise RuntimeError(f"no process {process}")


def main() -> None:
    values, steps = int(sys.argv[1]), int(sys.argv[2])
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=200 * 2**20)
    rl_insight.init(config={"server": {"url": f"http://127.0.0.1:{server.server_port}"}})
    hub = get_or_create_monitor_hub(None)

    def emit(count: int) -> list[float]:
        took = []
        for _ in range(count):
            began = time.perf_counter()
            for number in range(values):
                rl_insight.metric_gauge(f"layer_{number}", number / 7)
            took.append(time.perf_counter() - began)
        return took

    def applied() -> int:
        return int(ray.get(hub.get_status.remote())["events_applied"])

    emit(5)  # its imports and first connections
    before = applied()
    hub_cpu = _cpu_seconds("ray::MonitorHubActor")
    took = emit(steps)
    taken = applied() - before
    hub_cpu = _cpu_seconds("ray::MonitorHubActor") - hub_cpu
    assert taken == values * steps, f"{taken} of {values * steps}"
    seconds = statistics.median(took)
    print(json.dumps({"seconds_per_step": seconds, "hub_values_per_cpu_second": taken / hub_cpu}))
    ray.shutdown()


if __name__ == "__main__":
    main()
