"""The exporter's figures, each beside a peer measured in the same run; docs/benchmarks.md is what this prints.

python -m benchmarks.figures                 # all, written to docs/benchmarks.md
python -m benchmarks.figures scrape flat     # some, printed
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.machine import machine
from benchmarks.service import crowd, crowded_scrapes, emit, flat, ingest, scrape
from benchmarks.service.figure import Figure

DOCUMENT = Path("docs/benchmarks.md")
MEASUREMENTS: dict[str, Callable[[], Iterator[Figure]]] = {
    "emit": emit.measure,
    "ingest": ingest.measure,
    "scrape": scrape.measure,
    "crowded_scrapes": crowded_scrapes.measure,
    "flat": flat.measure,
    "crowd": crowd.measure,
}
HEAD = "| what | measured | beside | ratio | target | |\n|---|---|---|---|---|---|"


def main() -> None:
    names = sys.argv[1:] or list(MEASUREMENTS)
    print(machine(), HEAD, sep="\n\n", flush=True)
    figures = []
    for name in names:
        for figure in MEASUREMENTS[name]():
            figures.append(figure)
            print(figure.row(), flush=True)
    if names == list(MEASUREMENTS):
        DOCUMENT.write_text(_document(figures), encoding="utf-8")


def _document(figures: list[Figure]) -> str:
    rows = [figure.row() for figure in figures]
    missed = [figure.shortfall() for figure in figures if figure.shortfall()]
    how = "\n".join(f"* `{name}`: {_first_lines(name)}" for name in MEASUREMENTS)
    return (
        "# Benchmarks\n\nWritten by `make bench ARGS=figures`. Each ratio is of two measurements of one run.\n\n"
        f"{machine()}\n\n" + "\n".join([HEAD, *rows]) + f"\n\n## How\n\n{how}\n\n"
        "## What is missed\n\n" + "\n".join(missed or ["Nothing."]) + "\n\n"
        f"![Throughput and lag as rollouters are added]({Path(crowd.PLOT).name})\n"
    )


def _first_lines(name: str) -> str:
    documentation = sys.modules[f"benchmarks.service.{name}"].__doc__ or ""
    return " ".join(documentation.split())


if __name__ == "__main__":
    main()
