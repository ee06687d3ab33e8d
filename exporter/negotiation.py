"""Which exposition a scraper gets: highest weight among what is offered, never a version echoed back.

Offered are text 0.0.4 and OpenMetrics 1.0.0. A wildcard, nothing, or only unknown types get the text.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import exposition
from prometheus_client.core import Metric
from prometheus_client.openmetrics import exposition as openmetrics

from exporter.family_text import FamilyText, write_openmetrics, write_text


@dataclass(frozen=True, kw_only=True, slots=True)
class Format:
    """One exposition format: how it is named in the answer and written."""

    name: str
    content_type: str
    write: Callable[[Metric], FamilyText]
    end: bytes
    """What stands once behind the last family."""


TEXT = Format(
    name="text",
    content_type=exposition.CONTENT_TYPE_PLAIN_0_0_4,
    write=write_text,
    end=b"",
)
OPENMETRICS = Format(
    name="openmetrics",
    content_type=openmetrics.CONTENT_TYPE_LATEST,
    write=write_openmetrics,
    end=b"# EOF\n",
)

_OFFERS = {
    ("text/plain", "0.0.4"): TEXT,
    ("text/plain", ""): TEXT,
    ("text/*", ""): TEXT,
    ("*/*", ""): TEXT,
    ("application/openmetrics-text", "1.0.0"): OPENMETRICS,
    ("application/openmetrics-text", "0.0.1"): OPENMETRICS,
    ("application/openmetrics-text", ""): OPENMETRICS,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Preference:
    """One member of an Accept or Accept-Encoding header."""

    name: str
    parameters: dict[str, str]
    weight: float
    """The q-value, 0..1; 0 where it cannot be read."""


def preferences(header: str) -> list[Preference]:
    """The members of an Accept or Accept-Encoding header, in the order given (RFC 9110, section 12.4.2)."""
    members = []
    for member in header.split(","):
        name, *pairs = (part.strip() for part in member.split(";"))
        parameters = {
            key.strip().lower(): value.strip().strip('"')
            for key, _, value in (pair.partition("=") for pair in pairs)
        }
        if name:
            weight = _weight(parameters.pop("q", "1"))
            members.append(Preference(name=name.lower(), parameters=parameters, weight=weight))
    return members


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        return 0.0
    return min(max(weight, 0.0), 1.0) if math.isfinite(weight) else 0.0


def choose_format(accept: str) -> Format:
    """Ties go to the named type over the wildcard, then to the one listed first."""
    best, best_rank = TEXT, (0.0, False)
    for preference in preferences(accept):
        offer = _OFFERS.get((preference.name, preference.parameters.get("version", "")))
        rank = (preference.weight, "*" not in preference.name)
        if offer is not None and preference.weight > 0.0 and rank > best_rank:
            best, best_rank = offer, rank
    return best


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether gzip has a weight, and not a smaller one than a named identity."""
    weights = {preference.name: preference.weight for preference in preferences(accept_encoding)}
    gzip_weight = weights.get("gzip", weights.get("*", 0.0))
    return gzip_weight > 0.0 and gzip_weight >= weights.get("identity", 0.0)
