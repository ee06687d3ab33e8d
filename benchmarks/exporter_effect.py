"""What the exporter's state does to training: train steps per second with it up, absent, and silent.

    python -m benchmarks.exporter_effect [--rounds 2] [--versions 8]

    up      it runs on this machine and takes everything
    absent  nobody listens at its address: every connection is refused
    silent  connections are accepted, requests are never answered

Each round runs all three, in rotating order, so that what else the machine does hits each alike. Ratios are
to `absent` of the same round. On few cores `up` includes the processor time that the exporter itself takes.
The default size shows that it works; for a claim take at least `--rounds 5 --versions 12`, on a machine at rest.
"""

import argparse
import os
import socket
import statistics
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.machine import machine
from benchmarks.training_run import running_exporter, train


@contextmanager
def up(directory: Path) -> Iterator[str]:
    with running_exporter(directory) as exporter:
        yield exporter.otlp


@contextmanager
def absent(directory: Path) -> Iterator[str]:
    # Bound and not listening: nobody else gets the port, and whoever connects is refused.
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield _url(held)


@contextmanager
def silent(directory: Path) -> Iterator[str]:
    accepted: list[socket.socket] = []

    def accept() -> None:
        while True:
            connection, _ = listener.accept()
            if closing.is_set():
                return connection.close()
            accepted.append(connection)

    closing = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        acceptor = threading.Thread(target=accept)
        acceptor.start()
        try:
            yield _url(listener)
        finally:
            closing.set()
            socket.create_connection(listener.getsockname()).close()
            acceptor.join()
            for connection in accepted:
                connection.close()


def _url(listener: socket.socket) -> str:
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


ARMS: dict[str, Callable[[Path], AbstractContextManager[str]]] = {
    "up": up,
    "absent": absent,
    "silent": silent,
}


def steps_per_second(arm: str, versions: int) -> float:
    with TemporaryDirectory(prefix="asyncrl-bench-") as name, ARMS[arm](Path(name)) as endpoint:
        return train(Path(name), endpoint, {"versions": versions}).steps_per_second


def spread(values: list[float]) -> str:
    """Median, least and greatest."""
    return f"{statistics.median(values):6.3f}  {min(values):6.3f} - {max(values):6.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--versions", type=int, default=8, help="of each run, at least 2")
    arguments = parser.parse_args()
    print(machine())
    pace: dict[str, list[float]] = {arm: [] for arm in ARMS}
    for number in range(arguments.rounds):
        order = [*ARMS][number % len(ARMS) :] + [*ARMS][: number % len(ARMS)]
        for arm in order:
            pace[arm].append(steps_per_second(arm, arguments.versions))
        paces = "  ".join(f"{arm} {pace[arm][-1]:.3f}" for arm in order)
        print(f"round {number + 1}  {paces}  load {os.getloadavg()[0]:.1f}", flush=True)
    print("exporter  steps/s median    min - max  to absent median    min - max")
    for arm, values in pace.items():
        ratios = [value / base for value, base in zip(values, pace["absent"], strict=True)]
        print(f"{arm:8}         {spread(values)}            {spread(ratios)}")


if __name__ == "__main__":
    main()
