"""The metric values of one span: typed by the catalogue, range-checked, non-finite ones counted and left out."""

import re
from functools import lru_cache
from typing import Final

import msgspec

from exporter import catalog
from exporter.attributes import Attributes, finite, natural_numbers, partial
from exporter.errors import Rejected
from exporter.records import AttributeValue
from exporter.statistics import Distribution
from runtime.telemetry import schema

LONGEST_NAME: Final = 120
_RESERVED_SUFFIXES: Final = ("_total", "_count", "_sum", "_bucket", "_created", "_info")
_SCALAR_STATISTICS: Final = ("mean", "sum", "min", "max", "last")
_PREFIXES: Final = (
    schema.METRIC_PREFIX,
    schema.BUCKETS_PREFIX,
    schema.STATISTIC_PREFIX,
    schema.NONFINITE_PREFIX,
    schema.REPORTED_PREFIX,
)
_WEIGHT_ATTRIBUTES: Final = {
    "samples": schema.SAMPLE_COUNT,
    "trained_samples": schema.TRAINED_SAMPLE_COUNT,
    "tokens": schema.TOKEN_COUNT,
}


class Scalar(msgspec.Struct, frozen=True, kw_only=True, tag=True, gc=False):
    statistic: str
    value: float
    weight: float = 1.0


class Spread(msgspec.Struct, frozen=True, kw_only=True, tag=True, gc=False):
    """A value of a distribution: one partial, or one plain double."""

    distribution: Distribution
    buckets: tuple[int, ...] | None = None


Value = Scalar | Spread


@lru_cache(maxsize=4096)  # the same names come with every record
def user_family(name: str) -> str:
    """The family of a metric that the catalogue does not know: `actor/loss` is `asyncrl_user_actor_loss`.

    Raises Rejected (`bad_name`) for a name that is too long or holds no ASCII letter or digit.
    """
    fixed = re.sub(r"[^a-zA-Z0-9_]", "_", name).strip("_")
    if not fixed or len(name) > LONGEST_NAME:
        raise Rejected("bad_name", f"no metric name can be made of {name[:40]!r}")
    family = catalog.USER_PREFIX + fixed
    return family + ("_value" if family.endswith(_RESERVED_SUFFIXES) else "")


def reported_family(name: str) -> str:
    """The family of what a sender computed itself. Raises Rejected, as above."""
    return catalog.REPORTED_PREFIX + user_family(name).removeprefix(catalog.USER_PREFIX)


class Values(msgspec.Struct):
    """What the values of one span came to. Keyed by the name of the wire."""

    known: dict[str, Value] = {}
    user: dict[str, Scalar] = {}
    reported: dict[str, float] = {}
    nonfinite: dict[str, int] = {}
    out_of_range: dict[str, int] = {}


@lru_cache(maxsize=8192)  # as above
def _split(attribute: str) -> tuple[str, str]:
    """The prefix of a value's attribute, and the name behind it; two empty strings for any other attribute."""
    for prefix in _PREFIXES:
        if attribute.startswith(prefix):
            return prefix, attribute.removeprefix(prefix)
    return "", ""


class _Reader:
    def __init__(self, attributes: Attributes) -> None:
        self.attributes = attributes
        self.values = Values()
        self._weights = {"steps": 1.0}
        self._said: dict[str, dict[str, AttributeValue]] = {prefix: {} for prefix in (*_PREFIXES, "")}
        """Prefix -> name -> value."""
        for attribute, raw in attributes.all.items():
            prefix, name = _split(attribute)
            self._said[prefix][name] = raw
        said = self._said[schema.STATISTIC_PREFIX]
        self._statistics = {name: raw for name, raw in said.items() if isinstance(raw, str) and raw}
        """What the sender says of how metrics of its own merge, by their names."""

    def read_values(self) -> None:
        for name, raw in self._said[schema.METRIC_PREFIX].items():
            metric = catalog.METRIC_BY_NAME.get(name)
            try:
                if metric is None:
                    self._read_user_value(name, raw)
                else:
                    self.values.known[name] = self._known(metric, raw)
            except Rejected as error:
                self._leave_out(name, error)
        for name in self._said[schema.NONFINITE_PREFIX]:
            self._count_nonfinite(name, self.attributes.count(schema.NONFINITE_PREFIX + name) or 0)
        for name, raw in self._said[schema.REPORTED_PREFIX].items():
            self._read_reported(name, raw)
        for _ in self._said[schema.BUCKETS_PREFIX].keys() - schema.BUCKETS.keys():
            self.attributes.problems.append("bad_value")  # the others are read with their value

    def _known(self, metric: catalog.Metric, raw: AttributeValue) -> Value:
        if self._is_of_another_cohort(metric):
            raise Rejected("bad_value", f"{metric.name} is no metric of {self.attributes.span_name}")
        return self._spread(metric, raw) if metric.statistic == "distribution" else self._scalar(metric, raw)

    def _leave_out(self, name: str, error: Rejected) -> None:
        if error.reason == "nonfinite":
            self._count_nonfinite(name, 1)
        elif error.reason == "out_of_range":
            self.values.out_of_range[name] = self.values.out_of_range.get(name, 0) + 1
        else:
            self.attributes.problems.append(error.reason)

    def _is_of_another_cohort(self, metric: catalog.Metric) -> bool:
        """A rollouter's window would mix what it generated into what the trainer consumed, and the other way round."""
        if self.attributes.span_name in schema.ANNEX_SPANS:
            return False
        cohort = "rollouter" if self.attributes.span_name == schema.ROLLOUTER_WINDOW else "trainer"
        return cohort not in metric.cohort

    def _count_nonfinite(self, name: str, count: int) -> None:
        known = name if name in catalog.METRIC_BY_NAME else "user"
        if count:
            self.values.nonfinite[known] = self.values.nonfinite.get(known, 0) + count

    def _scalar(self, metric: catalog.Metric, raw: AttributeValue) -> Scalar:
        value = finite(raw)
        _check_range(metric, value, value)
        return Scalar(statistic=metric.statistic, value=value, weight=self._weight(metric.weight))

    def _weight(self, weight: str) -> float:
        known = self._weights.get(weight)
        if known is None:
            known = self._weights[weight] = self._read_weight(weight)
        return known

    def _read_weight(self, weight: str) -> float:
        name = _WEIGHT_ATTRIBUTES[weight]
        count = self.attributes.integer(name)
        if count is not None and count < 0:
            raise Rejected("bad_value", f"{name} is {count}, expected at least 0")
        return 1.0 if count is None else float(count)

    def _read_user_value(self, name: str, raw: AttributeValue) -> None:
        user_family(name)
        if raw == ():
            return  # an empty list gives no sample, and no complaint (verl#7361)
        statistic = self._statistics.get(name, "mean")
        if statistic not in _SCALAR_STATISTICS:
            raise Rejected("bad_value", f"{schema.STATISTIC_PREFIX}{name} is {statistic!r}")
        weight = self._weight("samples")
        self.values.user[name] = Scalar(statistic=statistic, value=finite(raw), weight=weight)

    def _spread(self, metric: catalog.Metric, raw: AttributeValue) -> Spread:
        if not isinstance(raw, tuple):
            value = finite(raw)
            _check_range(metric, value, value)
            return Spread(distribution=Distribution(count=1, sum=value, min=value, max=value, plain=True))
        distribution = partial(raw)
        if distribution.count:
            _check_range(metric, distribution.min, distribution.max)
        return Spread(distribution=distribution, buckets=self._buckets(metric, distribution.count))

    def _buckets(self, metric: catalog.Metric, count: int) -> tuple[int, ...] | None:
        raw, bounds = self._said[schema.BUCKETS_PREFIX].get(metric.name), metric.buckets
        if raw is None or bounds is None:
            return None
        counts = natural_numbers(raw) if isinstance(raw, tuple) and len(raw) == len(bounds) + 1 else ()
        if len(counts) != len(bounds) + 1 or sum(counts) != count:
            raise Rejected("bad_value", f"{schema.BUCKETS_PREFIX}{metric.name} does not add up to {count}")
        return counts

    def _read_reported(self, name: str, raw: AttributeValue) -> None:
        try:
            reported_family(name)
            self.values.reported[name] = finite(raw)
        except Rejected as error:
            if error.reason == "nonfinite":
                self._count_nonfinite(name, 1)
            else:
                self.attributes.problems.append(error.reason)


def read_values(attributes: Attributes) -> Values:
    """All metric values of a span. A bad one is left out and named in `attributes.problems`."""
    reader = _Reader(attributes)
    reader.read_values()
    return reader.values


def _check_range(metric: catalog.Metric, low: float, high: float) -> None:
    if (metric.low is not None and low < metric.low) or (metric.high is not None and high > metric.high):
        raise Rejected("out_of_range", f"{metric.name} {low}..{high} leaves {metric.low}..{metric.high}")
