"""The text of a family is that of prometheus_client, byte for byte."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import exposition
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar, Timestamp

from exporter.negotiation import OPENMETRICS, TEXT, Format

TEXTS = st.one_of(st.text(st.characters(codec="utf-8")), st.text('\\n\n"\r {}#'))
VALUES = st.one_of(st.floats(), st.integers(-(2**70), 2**70))
NAMES = st.from_regex(r"[a-z][a-zA-Z0-9_]{0,8}", fullmatch=True)
EXEMPLARS = st.builds(Exemplar, st.dictionaries(NAMES, TEXTS, max_size=2), VALUES, st.floats(0, 2e9))
COUNTS = st.integers(0, 2**53)
LABELS = st.lists(NAMES, unique=True, max_size=3)


class OneFamily(Collector):
    def __init__(self, family: Metric) -> None:
        self.family = family

    def collect(self) -> list[Metric]:
        return [self.family]


@st.composite
def families(draw: st.DrawFn) -> Metric:
    name, documentation, labels = f"asyncrl_{draw(NAMES)}", draw(TEXTS), draw(LABELS)
    children = draw(st.lists(st.lists(TEXTS, min_size=len(labels), max_size=len(labels)), max_size=3))
    kind = draw(st.sampled_from(["counter", "gauge", "histogram"]))
    if kind == "histogram":
        histogram = HistogramMetricFamily(name, documentation, labels=labels)
        for values in children:
            bounds = [*draw(st.lists(st.sampled_from(["-1.0", "0.5", "1e+06"]), unique=True)), "+Inf"]
            counts = [(bound, draw(COUNTS)) for bound in bounds]
            spans = [(bound, count, draw(EXEMPLARS)) for bound, count in counts]
            histogram.add_metric(values, draw(st.sampled_from([counts, spans])), draw(VALUES))
        return histogram
    if kind == "counter":
        family: CounterMetricFamily | GaugeMetricFamily = CounterMetricFamily(
            name, documentation, labels=labels
        )
    else:
        family = GaugeMetricFamily(name, documentation, labels=labels)
    for values in children:
        family.add_metric(values, draw(VALUES))
    return family


@pytest.mark.parametrize(
    ("form", "oracle"),
    [(TEXT, exposition.generate_latest), (OPENMETRICS, openmetrics.generate_latest)],
    ids=["text", "openmetrics"],
)
@given(family=families())
def test_a_family_is_written_as_prometheus_client_writes_it(
    form: Format, oracle: Callable[[Collector], bytes], family: Metric
) -> None:
    assert b"".join([*form.write(family), form.end]) == oracle(OneFamily(family))


@given(value=VALUES, milliseconds=st.integers(0, 4_000_000_000_000))
def test_so_is_a_time_in_openmetrics(value: float, milliseconds: int) -> None:
    family = GaugeMetricFamily("asyncrl_reward_mean", "A gauge.", labels=["run"])
    seconds, rest = divmod(milliseconds, 1000)
    family.add_metric(["r"], value, timestamp=Timestamp(seconds, rest * 1_000_000))
    written = b"".join([*OPENMETRICS.write(family), OPENMETRICS.end])
    assert written == openmetrics.generate_latest(OneFamily(family))


def test_values_are_written_as_go_writes_them() -> None:
    family = GaugeMetricFamily("asyncrl_a", "A gauge.", labels=["x"])
    for number, value in enumerate((1e7, 0.1, -0.0, math.inf, -math.inf, math.nan, 3)):
        family.add_metric([str(number)], value)
    values = [line.rpartition(" ")[2] for line in TEXT.write(family).lines.decode().splitlines()]
    assert values == ["1e+07", "0.1", "-0.0", "+Inf", "-Inf", "NaN", "3.0"]
