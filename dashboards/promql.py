"""The few shapes of PromQL that boards and rules are made of; they take families, never names.

selector, shown                    which series: all, or those that the variables of a board choose
once, rate                         a gauge, a counter; both count a run once although two exporters publish it
newest                             a gauge of ours, or what a foreign trainer says of the same
by                                 for tables: a series per row, with the labels of its row only
total, share, ratio, quantile      sums first, then division; labels that are not named are summed over
code                               a one-hot gauge as one number, which value mappings turn into words again
"""

from collections.abc import Sequence
from typing import Final

from exporter.catalog import PREFIX, Family

REPLICA_LABELS: Final = ("instance", "pod", "node", "replica", "service")
"""What tells two exporters of one run apart. A ServiceMonitor sets `service` and a PodMonitor does not."""

HOME_LABELS: Final = ("cluster", "namespace", "job")
"""What tells exporters apart that know nothing of each other, such as those of two teams. Where Prometheus sets none
of these they are all empty, and equal."""

RUN: Final = ", ".join((*HOME_LABELS, "run"))
"""What rules match on: runs of two teams may be called the same."""

BOARD_LABELS: Final = ("run", "rollouter", "attempt")
"""Labels that are variables of the boards, by the same name."""

REPORTED: Final = "reported_"
"""What the names of values begin with, after the prefix, that a foreign trainer computed itself."""

RATE_WINDOW: Final = "$__rate_interval"
"""At least four scrapes wide, whatever the scrape interval. Boards only: rules know no variables."""


def selector(family: Family, *matchers: str, suffix: str = "") -> str:
    """The series of a family; `suffix` for the parts of a histogram."""
    return _series(family.name + suffix, matchers)


def shown(family: Family, *matchers: str, suffix: str = "") -> str:
    """The series that the variables of a board choose, as far as the family has their labels."""
    chosen = [_chosen(label) for label in BOARD_LABELS if label in family.labels]
    return selector(family, *chosen, *matchers, suffix=suffix)


def once(selected: str, *dropped: str) -> str:
    """Each series once, however many exporters publish it; the largest where labels are `dropped` besides."""
    return f"max without ({_names((*REPLICA_LABELS, *dropped))}) ({selected})"


def rate(selected: str, window: str = RATE_WINDOW) -> str:
    """Increase per second of each counter, once."""
    return once(f"rate({selected}[{window}])")


def increase(selected: str, window: str = RATE_WINDOW) -> str:
    """Increase of each counter, once."""
    return once(f"increase({selected}[{window}])")


def average(selected: str) -> str:
    """A gauge averaged over the rate window, once."""
    return once(f"avg_over_time({selected}[{RATE_WINDOW}])")


def over_range(selected: str) -> str:
    """The last value of each series within the time range of the board: what was on the page at any time of it."""
    return f"last_over_time({selected}[$__range])"


def reported_selector(family: Family) -> str:
    """What foreign trainers computed themselves for the family, per `source` and never per rollouter."""
    window = f"{PREFIX}version_" if "param_version" in family.labels else PREFIX
    chosen = [_chosen(label) for label in BOARD_LABELS if label in family.labels and label != "rollouter"]
    return _series(f"{window}{REPORTED}{family.name.removeprefix(window)}", chosen)


def reported(*families: Family) -> str:
    """The first of the families that a foreign trainer reports: without its label `source`, and therefore in the
    place of a series of ours."""
    return " or ".join(once(reported_selector(family), "source") for family in families)


def is_reported(expr: str) -> bool:
    """Whether it asks for values that foreign trainers computed."""
    return REPORTED in expr


def newest(family: Family, *matchers: str) -> str:
    """A gauge as the chosen runs have it, or where a foreign trainer reported its own value, that."""
    return f"({once(shown(family, *matchers))} or {reported(family)})"


def by(series: str, *labels: str) -> str:
    """Series that are one per combination of these labels, with no others: what tables can join."""
    return f"max by ({_names(labels)}) ({series})"


def total(series: str, *labels: str) -> str:
    """The sum by these labels."""
    return f"sum by ({_names(labels)}) ({series})"


def ratio(numerator: str, denominator: str) -> str:
    """A ratio of sums; absent where there is nothing to divide by."""
    return f"{numerator} / ({denominator} > 0)"


def share(series: str, label: str, *labels: str) -> str:
    """The part of each value of `label` in the sum by the other labels."""
    whole = f"{total(series, *labels)} > 0"
    return f"{total(series, *labels, label)} / on ({_names(labels)}) group_left () ({whole})"


def quantile(q: float, family: Family, *labels: str) -> str:
    """A quantile of what a histogram took up within the rate window; absent, and not NaN, if that is nothing."""
    buckets = rate(shown(family, suffix="_bucket"))
    return f"(histogram_quantile({q:g}, {total(buckets, *labels, 'le')}) > -Inf)"


def is_interpolated(expr: str) -> bool:
    """Whether it has a quantile, which is only as exact as the buckets of its histogram."""
    return "histogram_quantile" in expr


def code(family: Family, label: str, values: Sequence[str]) -> str:
    """The place of the current value among `values`, from 1; 0 if it is none of them."""
    places = [f"{shown(family, _equals(label, value))} * {n}" for n, value in enumerate(values, 1)]
    return once(" or ".join(places), label)


def _series(name: str, matchers: Sequence[str]) -> str:
    return f"{name}{{{','.join(matchers)}}}" if matchers else name


def _chosen(label: str) -> str:
    return f'{label}=~"${label}"'


def _equals(label: str, value: str) -> str:
    return f'{label}="{value}"'


def _names(labels: Sequence[str]) -> str:
    return ", ".join(labels)
