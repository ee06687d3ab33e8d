"""Writes docs/metrics.md, beside this file, from exporter/catalog.py; --check says whether it is current."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import generated_page

from exporter import catalog

PAGE = Path(__file__).with_suffix(".md")

HEAD = """\
<!-- Generated from exporter/catalog.py by `make generate`. Not edited by hand. -->
# Metrics

Every name that the exporter understands and publishes. [wire.md](wire.md) says how they are sent,
[glossary.md](glossary.md) what the words mean.
"""
METRICS = """
## What a trainer may send

`asyncrl.metric.<name>` on a control span. The statistic says how the values of one version are merged: a mean
by its weight, a distribution by its partial `[count, sum, min, max, m2]`. A value outside the range is
refused and counted.
"""
LEDGER = """
## The run, the samples, the states

Counters move when a record is journalled, ratios and times of a version when it is sealed, live states as
they are reported. A gauge that nobody reported is absent, never 0.
"""
DERIVED = """
## The newest version, by metric

A distribution gives four gauges of the newest version and a cumulative histogram over all versions.
"""
WINDOW = """
## The version window

The newest versions side by side, each with its `param_version`, kept long enough for a scraper to see all.
"""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    for row in (head, ["---"] * len(head), *rows):
        yield f"| {' | '.join(row)} |\n"


def bounds(low: float | None, high: float | None) -> str:
    if low is None and high is None:
        return ""
    return f"{'' if low is None else f'{low:g}'}..{'' if high is None else f'{high:g}'}"


def metric_rows() -> Iterator[Sequence[str]]:
    for metric in sorted(catalog.METRICS, key=lambda metric: metric.name):
        statistic = f"mean by {metric.weight}" if metric.statistic == "mean" else metric.statistic
        yield f"`{metric.name}`", statistic, metric.unit, bounds(metric.low, metric.high), metric.help


def family_rows(families: Iterable[catalog.Family]) -> Iterator[Sequence[str]]:
    for family in sorted(families, key=lambda family: family.name):
        labels = ", ".join(f"`{label}`" for label in family.labels)
        yield f"`{family.name}`", family.kind, labels, bounds(family.low, family.high), family.help


def render() -> str:
    """The whole page."""
    families = ("family", "kind", "labels", "range", "help")
    derived = [family for group in catalog.METRIC_FAMILIES.values() for family in group]
    return "".join(
        [
            HEAD,
            METRICS,
            "\n",
            *table(("name", "statistic", "unit", "range", "help"), metric_rows()),
            LEDGER,
            "\n",
            *table(families, family_rows(catalog.LEDGER_FAMILIES)),
            DERIVED,
            "\n",
            *table(families, family_rows(derived)),
            WINDOW,
            "\n",
            *table(families, family_rows(catalog.WINDOW_FAMILIES)),
        ]
    )


if __name__ == "__main__":
    sys.exit(generated_page.run(PAGE, render(), description=__doc__, source="exporter/catalog.py"))
