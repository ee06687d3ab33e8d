"""What telemetry costs the process that is observed: CPU time per span, from the call to the answer.

    python -m benchmarks.telemetry_cost

The receiver is another process that reads and answers. All of this process's CPU time counts: emitting,
encoding, the delivery thread and its HTTP.
"""

import subprocess
import sys
import time
from collections.abc import Callable

from runtime.telemetry import schema
from runtime.telemetry.config import Identity, TelemetryConfig
from runtime.telemetry.emitter import Telemetry
from runtime.telemetry.partial import Partial

RECEIVER = """
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_request(self, code="-", size="-"):
        pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""

DISTRIBUTIONS = ("reward", "staleness", "update_lag", "version_span", "response_length", "step", "queue_wait")
SPANS = 1000
ROUNDS = 3
FLUSH_SECONDS = 60.0


def control(telemetry: Telemetry, values: dict[str, float | Partial]) -> None:
    """A train step as the trainer emits it."""
    now_ns = telemetry.clock.now_ns()
    counts = {schema.STEP: 1, schema.STEP_IN_WINDOW: 1, schema.SAMPLE_COUNT: 32, schema.TOKEN_COUNT: 1800}
    telemetry.control(
        schema.TRAIN_STEP, param_version=1, start_ns=now_ns, end_ns=now_ns, attributes=counts, values=values
    )


def detail(telemetry: Telemetry) -> None:
    """A rollout as the rollouter emits it."""
    now_ns = telemetry.clock.now_ns()
    attributes: dict[str, str | int | float] = {
        schema.SAMPLE_ID: 123,
        schema.RESPONSE_INDEX: 3,
        schema.PARAM_VERSION_MIN: 4,
        schema.PARAM_VERSION_MAX: 5,
        schema.TOKENS: 7,
        schema.REWARD_VALUE: 0.5,
        schema.FINISH_REASON: "stop",
    }
    telemetry.detail(schema.ROLLOUT, start_ns=now_ns, end_ns=now_ns, attributes=attributes)


def microseconds_per_span(telemetry: Telemetry, emit: Callable[[], None]) -> float:
    """The least of some rounds, spans emitted one by one and all of them answered."""
    rounds = []
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(SPANS):
            emit()
        assert telemetry.flush(FLUSH_SECONDS)
        rounds.append((time.process_time() - began) / SPANS * 1e6)
    return min(rounds)


def main() -> None:
    """Print one line per kind of span."""
    receiver = subprocess.Popen([sys.executable, "-c", RECEIVER], stdout=subprocess.PIPE, text=True)
    try:
        assert receiver.stdout is not None
        url = f"http://127.0.0.1:{receiver.stdout.readline().strip()}"
        identity = Identity(run_id="cost", role=schema.TRAINER)
        telemetry = Telemetry(TelemetryConfig(endpoints=(url,), detail_sampling=1.0), identity)
        sampling = Telemetry(TelemetryConfig(endpoints=(url,), detail_sampling=0.1), identity)
        values: dict[str, float | Partial] = {name: Partial.of(name, range(32)) for name in DISTRIBUTIONS}
        values |= {f"scalar_{number}": number / 7 for number in range(60 - len(values))}
        cases: dict[str, Callable[[], None]] = {
            "control span, 60 values": lambda: control(telemetry, values),
            "detail span, sampled": lambda: detail(telemetry),
        }
        for name, emit in cases.items():
            print(f"{name:34} {microseconds_per_span(telemetry, emit):8.1f} us of CPU")
        rate = microseconds_per_span(sampling, lambda: detail(sampling))
        print(f"{'detail span, one in ten sampled':34} {rate:8.1f} us of CPU")
        print(telemetry.stats())
        telemetry.shutdown(FLUSH_SECONDS)
        sampling.shutdown(FLUSH_SECONDS)
    finally:
        receiver.kill()
        receiver.communicate()


if __name__ == "__main__":
    main()
