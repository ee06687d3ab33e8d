"""What telemetry costs the process that is observed: CPU time per span, from the call to the answer.

    python -m benchmarks.telemetry_cost

The receiver is another process that reads and answers. All of this process's CPU time counts: summing values up,
emitting, encoding, the delivery thread and its HTTP. `train step` has the values of the default run, and a link to
each rollout that was kept. Spans are emitted as fast as they can be, so that requests are full and caches warm;
the last line is of train steps at intervals, each alone in its request, as in training: there a busy machine shows.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

import torch

from benchmarks.machine import machine
from runtime.config import GrpoConfig, ModelConfig, OptimizerConfig
from runtime.learner import Learner
from runtime.model import build_model
from runtime.telemetry import schema
from runtime.telemetry.config import Identity, TelemetryConfig
from runtime.telemetry.emitter import Telemetry
from runtime.telemetry.partial import Partial
from runtime.types import Prompt, Response, Sample, Ticket

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

DISTRIBUTIONS = (
    "reward",
    "staleness",
    "update_lag",
    "response_span",
    "response_length",
    "step",
    "queue_wait",
)
SAMPLES, GROUP_SIZE, TOKENS = 32, 8, 7
"""Of a train step of the default run."""
SPANS = 1000
ROUNDS = 3
FLUSH_SECONDS = 60.0
NEVER_SECONDS = 86_400.0


def control(
    telemetry: Telemetry, values: dict[str, float | list[float] | Partial], links: list[str] | None = None
) -> None:
    """A train step as the trainer emits it."""
    now_ns = telemetry.clock.now_ns()
    telemetry.control(
        schema.TRAIN_STEP,
        param_version=1,
        start_ns=now_ns,
        end_ns=now_ns,
        attributes={
            schema.STEP: 1,
            schema.STEP_IN_WINDOW: 1,
            schema.SAMPLE_COUNT: SAMPLES,
            schema.TRAINED_SAMPLE_COUNT: SAMPLES,
            schema.TOKEN_COUNT: SAMPLES * GROUP_SIZE * TOKENS,
        },
        values={
            name: Partial.of(name, value) if isinstance(value, list) else value
            for name, value in values.items()
        },
        links=links or (),
    )


def step_values() -> dict[str, float | list[float] | Partial]:
    """What a step of the learner measures, and what the trainer adds: one number per response, sample or step."""
    device = torch.device("cpu")
    model, tokenizer = build_model(ModelConfig(), seed=0, device=device)
    prompt = Prompt(prompt_id="", text="s3120=", answer="0123")
    samples = [
        Sample(
            ticket=Ticket(ticket_id=ticket_id, prompt=prompt),
            prompt_token_ids=tokenizer.encode(prompt.text),
            responses=[
                Response(index=i, token_ids=[i] * TOKENS, log_probs=[-3.0] * TOKENS, reward=i / GROUP_SIZE)
                for i in range(GROUP_SIZE)
            ],
            rollouter="0",
        )
        for ticket_id in range(SAMPLES)
    ]
    learner = Learner(model, tokenizer, GrpoConfig(), OptimizerConfig(), device)
    per_response = [float(number % 2) for number in range(SAMPLES * GROUP_SIZE)]
    return {
        **learner.step(learner.assemble(samples)).values,
        **dict.fromkeys(("staleness", "update_lag", "response_span"), per_response),
        "queue_wait": per_response[:SAMPLES],
        "step": [0.25],
        "tokens_per_second": 6000.0,
    }


def detail(telemetry: Telemetry) -> str:
    """A rollout as the rollouter emits it; its traceparent."""
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
    return telemetry.detail(schema.ROLLOUT, start_ns=now_ns, end_ns=now_ns, attributes=attributes)


def microseconds_per_span(
    telemetry: Telemetry, emit: Callable[[], object], *, spans: int = SPANS, pause_seconds: float = 0.0
) -> float:
    """The least of some rounds, spans emitted one by one and all of them answered."""
    rounds = []
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(spans):
            emit()
            if pause_seconds:
                time.sleep(pause_seconds)
        assert telemetry.flush(FLUSH_SECONDS)
        rounds.append((time.process_time() - began) / spans * 1e6)
    return min(rounds)


def measure(url: str) -> None:
    """Print one line per kind of span, all sent to `url`."""

    def telemetry(*, detail_sampling: float, flush_interval_seconds: float = 1.0) -> Telemetry:
        config = TelemetryConfig(
            endpoints=(url,),
            detail_sampling=detail_sampling,
            flush_interval_seconds=flush_interval_seconds,
            metrics_interval_seconds=NEVER_SECONDS,
        )
        return Telemetry(config, Identity(run_id="cost", role=schema.TRAINER))

    def show(name: str, microseconds: float) -> None:
        print(f"{name:34} {microseconds:8.1f} us of CPU", flush=True)

    everything, sampled, nothing = (telemetry(detail_sampling=share) for share in (1, 0.1, 0))
    paced = telemetry(detail_sampling=0, flush_interval_seconds=0.005)
    values: dict[str, float | list[float] | Partial] = {
        name: Partial.of(name, range(SAMPLES)) for name in DISTRIBUTIONS
    }
    values |= {f"scalar_{number}": number / 7 for number in range(60 - len(values))}
    show("control span, 60 values", microseconds_per_span(everything, lambda: control(everything, values)))
    show("detail span, sampled", microseconds_per_span(everything, lambda: detail(everything)))
    show("detail span, one in ten sampled", microseconds_per_span(sampled, lambda: detail(sampled)))
    measured = step_values()
    unlinked, linked = ([detail(each) for _ in range(SAMPLES * GROUP_SIZE)] for each in (nothing, sampled))
    for name, emitting, links in (
        ("train step, no rollout kept", nothing, unlinked),
        ("train step, one in ten kept", sampled, linked),
    ):
        emit = partial(control, emitting, measured, links)
        show(name, microseconds_per_span(emitting, emit))
    emit = partial(control, paced, measured, unlinked)
    one_by_one = microseconds_per_span(paced, emit, spans=100, pause_seconds=0.02)
    show("train step, none kept, one by one", one_by_one)
    for each in (everything, sampled, nothing, paced):
        each.shutdown(FLUSH_SECONDS)
        assert not any(each.stats().dropped.values())


def main() -> None:
    print(machine())
    torch.set_num_threads(1)
    receiver = subprocess.Popen([sys.executable, "-c", RECEIVER], stdout=subprocess.PIPE, text=True)
    try:
        assert receiver.stdout is not None
        measure(f"http://127.0.0.1:{receiver.stdout.readline().strip()}")
    finally:
        receiver.kill()
        receiver.communicate()


if __name__ == "__main__":
    main()
