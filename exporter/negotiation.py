"""Which exposition a scraper gets: highest weight among what is offered, never a version echoed back.

Offered are text 0.0.4 and OpenMetrics 1.0.0. A wildcard alone, nothing, or only unknown types get the text.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

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

_OFFERS: Final = (
    (TEXT, "text/plain", ("", "0.0.4")),
    (OPENMETRICS, "application/openmetrics-text", ("", "0.0.1", "1.0.0")),
)
"""Format, its media type, and the versions that it is asked for by."""


_NOT_WANTED: Final = (0.0, False, 0)


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
    best, best_rank = TEXT, _NOT_WANTED
    wanted = preferences(accept)
    for offer, media_type, versions in _OFFERS:
        rank = _rank(wanted, media_type, versions)
        if rank[0] > 0.0 and rank > best_rank:
            best, best_rank = offer, rank
    return best


def _rank(
    wanted: Sequence[Preference], media_type: str, versions: Collection[str]
) -> tuple[float, bool, int]:
    """Weight, whether the type is named, place from the end: by what is most exact, be it a refusal (RFC 9110,
    section 12.5.1)."""
    kind, _, _ = media_type.partition("/")
    for name, known in ((media_type, versions), (f"{kind}/*", ("",)), ("*/*", ("",))):
        ranks = [
            (preference.weight, name == media_type, -place)
            for place, preference in enumerate(wanted)
            if preference.name == name and preference.parameters.get("version", "") in known
        ]
        if ranks:
            return max(ranks)
    return _NOT_WANTED


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether gzip has a weight, and not a smaller one than a named identity."""
    weights = {preference.name: preference.weight for preference in preferences(accept_encoding)}
    gzip_weight = weights.get("gzip", weights.get("*", 0.0))
    return gzip_weight > 0.0 and gzip_weight >= weights.get("identity", 0.0)
