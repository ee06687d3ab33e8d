"""A page of remembered pieces is the page that is written anew, and what lasts is written once."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.core import GaugeMetricFamily, Metric

from exporter.negotiation import OPENMETRICS, TEXT, Format
from exporter.page_writer import PageWriter, Part
from exporter.scrape_log import ScrapeLog
from exporter.self_metrics import SelfMetrics

NAMES = ("asyncrl_version_a", "asyncrl_version_b", "asyncrl_version_c")


class Version:
    """Something that never changes, and how often it was written."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.written = 0

    def families(self) -> Iterable[Metric]:
        self.written += 1
        for name in NAMES[: 1 + self.number % len(NAMES)]:
            yield gauge(name, str(self.number), float(self.number))


def gauge(name: str, label: str, value: float) -> Metric:
    family = GaugeMetricFamily(name, "A gauge.", labels=["param_version"])
    family.add_metric([label], value)
    return family


def parts(versions: Iterable[Version]) -> list[Part]:
    return [Part((version,), version.families) for version in versions]


def write(writer: PageWriter, value: float, versions: Iterable[Version]) -> bytes:
    texts, complete = writer.write([gauge("asyncrl_live", "0", value)], parts(versions))
    assert complete
    return b"".join(texts)


@pytest.mark.parametrize("form", [TEXT, OPENMETRICS], ids=["text", "openmetrics"])
@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100), st.sampled_from([1.0, 2.0])), max_size=6))
def test_a_page_made_of_what_is_remembered_is_the_page_written_anew(
    form: Format, pages: list[tuple[int, int, float]]
) -> None:
    writer = PageWriter(form, SelfMetrics(ScrapeLog()))
    versions = [Version(number) for number in range(200)]
    first = 0
    for (
        left,
        added,
        value,
    ) in pages:  # versions leave at the front and come at the end, as in the version window
        first += left
        window = versions[first : first + added]
        fresh = PageWriter(form, SelfMetrics(ScrapeLog()))
        assert write(writer, value, window) == write(fresh, value, window)
        assert writer.series == fresh.series == 1 + sum(1 + each.number % len(NAMES) for each in window)


def test_a_version_is_written_once_while_it_stays() -> None:
    writer = PageWriter(TEXT, SelfMetrics(ScrapeLog()))
    versions = [Version(number) for number in range(300)]
    for page in range(200):
        write(writer, float(page), versions[page : page + 100])
    assert {version.written for version in versions[:299]} == {1}


def test_a_version_of_which_there_is_more_to_say_is_written_again() -> None:
    writer = PageWriter(TEXT, SelfMetrics(ScrapeLog()))
    version, annex = Version(0), Version(1)
    write(writer, 1.0, [version])
    both = Part((version, annex), lambda: [gauge(NAMES[0], "0", 5.0)])
    texts, _ = writer.write([], [both])
    assert b"".join(texts).endswith(b'{param_version="0"} 5.0\n')
