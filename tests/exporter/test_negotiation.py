"""Content negotiation by weight, from a fixed list."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.negotiation import OPENMETRICS, TEXT, Format, accepts_gzip, choose_format

OPENMETRICS_TYPE = "application/openmetrics-text"
PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        ("", TEXT),
        ("*/*", TEXT),
        ("application/json", TEXT),
        ("text/plain", TEXT),
        ("text/html, */*;q=0.8", TEXT),
        ("text/plain;version=0.0.4;q=0.9, application/openmetrics-text;q=0.1", TEXT),
        ("text/plain;version=0.0.4;q=0.1, application/openmetrics-text;q=0.9", OPENMETRICS),
        (f"*/*, {OPENMETRICS_TYPE}", OPENMETRICS),
        ("text/plain;q=0, */*;q=0.5", OPENMETRICS),
        ("text/plain;q=0.1, */*;q=0.5", OPENMETRICS),
        ("text/*;q=0, */*", OPENMETRICS),
        ("text/plain;q=0, application/*;q=0.9", OPENMETRICS),
        (f"*/*;q=0.5, {OPENMETRICS_TYPE};q=0", TEXT),
        ("text/plain;q=0, */*;q=0", TEXT),
        (f"{OPENMETRICS_TYPE}, text/plain", OPENMETRICS),
        (f"text/plain, {OPENMETRICS_TYPE}", TEXT),
        (f"{OPENMETRICS_TYPE}; version=0.0.1", OPENMETRICS),
        (f'{OPENMETRICS_TYPE}; version="1.0.0"; Q=1', OPENMETRICS),
        (f"{OPENMETRICS_TYPE};version=2.0.0", TEXT),
        (f"{OPENMETRICS_TYPE};version=9.9.9;q=1, {OPENMETRICS_TYPE};version=1.0.0;q=0.2", OPENMETRICS),
        (f"{OPENMETRICS_TYPE};q=0", TEXT),
        (f"{OPENMETRICS_TYPE};q=0, text/plain;q=0", TEXT),
        (f"{OPENMETRICS_TYPE};q=nan, text/plain;q=0.1", TEXT),
        (f"{OPENMETRICS_TYPE};q=high, text/plain;q=0.1", TEXT),
        (PROMETHEUS_2, OPENMETRICS),
        (PROMETHEUS_3, OPENMETRICS),
    ],
)
def test_c36_the_highest_weight_among_what_is_offered_wins(accept: str, chosen: Format) -> None:
    assert choose_format(accept) is chosen


@given(st.text())
def test_any_accept_header_gets_one_of_the_two(accept: str) -> None:
    assert choose_format(accept) in (TEXT, OPENMETRICS)
    accepts_gzip(accept)


@pytest.mark.parametrize(
    ("accept_encoding", "compressed"),
    [
        ("", False),
        ("gzip", True),
        ("gzip, deflate, br", True),
        ("deflate", False),
        ("*", True),
        ("gzip;q=0", False),
        ("gzip;q=0, *", False),
        ("identity, gzip;q=0.5", False),
        ("identity;q=0.5, gzip;q=0.5", True),
    ],
)
def test_gzip_needs_a_weight_not_below_that_of_identity(accept_encoding: str, compressed: bool) -> None:
    assert accepts_gzip(accept_encoding) is compressed
