"""Coverage-guided fuzzing of decoder and ledger with atheris (libFuzzer), which is not among the development needs.

pip install atheris && python -m tests.exporter.coverage_fuzz -max_total_time=60 /tmp/corpus
"""

import importlib
import sys
from pathlib import Path
from typing import Any

from tests.wire import Emitter

# From PyPI, without types, and only on some platforms.
atheris: Any = importlib.import_module("atheris")

with atheris.instrument_imports():
    from exporter import otlp
    from exporter.errors import RequestError
    from exporter.ledger import Ledger
    from exporter.publish import page
    from exporter.sealing import next_seal
    from exporter.snapshot import Snapshot, take_run
    from exporter.state import State
    from exporter.version_window import VersionWindow


SIGNALS: tuple[otlp.Signal, ...] = ("traces", "metrics")


def one_input(content: bytes) -> None:
    """Two requests of either signal, then all seals, then the families of the page."""
    ledger = Ledger(State(), monotonic=0.0)
    middle = len(content) // 2
    for now, part in enumerate((content, content[:middle], content[middle:]), 1):
        for signal in SIGNALS:
            try:
                batch = otlp.decode(signal, part)
            except RequestError:
                continue
            ledger.apply(batch, wall=1.8e9 + now, monotonic=float(now))
    ledger.arrivals.now = 1e6
    for run in ledger.state.runs.values():
        while seal := next_seal(run, ledger.arrivals, grace=1.0, wall=1.8e9):
            ledger.seal(seal, monotonic=1e6)
    window = VersionWindow(fewest=20, hold_seconds=300.0)
    runs = {name: take_run(ledger, run, window) for name, run in ledger.state.runs.items()}
    for _ in page.families(Snapshot(runs=runs, unattributed={}), 1.8e9):
        pass


def write_seeds(corpus: Path) -> None:
    """Good requests to start from."""
    trainer = Emitter("")
    window = trainer.window(1, [{"policy_loss": 1.0, "reward": [8, 4.0, 0.0, 1.0, 2.0], "mine/2": 3.0}])
    rollouter = Emitter("", role="rollouter", source="o")
    states = {"generating": 3.0, "paused_staleness": 1.0}
    seeds = [
        trainer.request(*window, trainer.run_end(1)),
        rollouter.request(rollouter.rollouter_window(1, "0", states)),
        rollouter.metrics_request(
            rollouter.gauge(
                "asyncrl.rollouter.state", 1, {"asyncrl.state": "idle", "asyncrl.rollouter": "0"}
            ),
            rollouter.sum("asyncrl.samples.fed", 7, start=1.0),
        ),
    ]
    for number, seed in enumerate(seeds):
        (corpus / f"seed{number}").write_bytes(seed.SerializeToString())


def main() -> None:
    """libFuzzer's arguments; the last one is the folder of the corpus."""
    write_seeds(Path(sys.argv[-1]))
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
