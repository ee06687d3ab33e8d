"""Families -> the text of a page in one format. What has not changed since the last page is not written again.

families   written when a sample of theirs has changed
parts      said of what never changes, as sealed versions: written once, the lines of each family by themselves
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from exporter.negotiation import Format
from exporter.self_metrics import SelfMetrics

_LOG = logging.getLogger(__name__)
_HEADER = re.compile(rb"(?:#[^\n]*\n)*")

Readable = TypeVar("Readable")


class Part(NamedTuple):
    """What the page says of some `objects` that never change; where there is more to say, there is another object."""

    objects: tuple[object, ...]
    families: Callable[[], Iterable[Metric]]


class _OneFamily(Collector):
    """A registry of a single family: the encoders of prometheus_client take nothing smaller."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> list[Metric]:
        return [self._family]


class PageWriter:
    """Remembers what is on the last page, and no more."""

    def __init__(self, form: Format, self_metrics: SelfMetrics) -> None:
        self._form = form
        self._self_metrics = self_metrics
        self._families: dict[str, tuple[list[Sample], bytes]] = {}
        self._parts: dict[tuple[int, ...], tuple[Part, dict[str, bytes]]] = {}
        """Ids of its objects -> the part, so that the ids stay taken, and its lines by family."""
        self._headers: dict[str, bytes] = {}
        """HELP and TYPE of the families of parts."""
        self._failed = False
        self._reported: set[str] = set()

    def write(self, families: Iterable[Metric], parts: Iterable[Part]) -> tuple[list[bytes], bool]:
        """The page in pieces, and whether all could be read and written. No family is in both arguments."""
        self._failed = False
        texts = [*self._write_families(families), *self._write_parts(parts)]
        return texts, not self._failed

    def _write_families(self, families: Iterable[Metric]) -> Iterator[bytes]:
        known, self._families = self._families, {}
        for family in self._read(families):
            samples, text = known.get(family.name, (None, b""))
            if samples != family.samples:
                text = self._encode(family)
            if text:
                self._families[family.name] = (family.samples, text)
                yield text

    def _write_parts(self, parts: Iterable[Part]) -> Iterator[bytes]:
        known, self._parts = self._parts, {}
        lines: dict[str, list[bytes]] = {}
        for part in self._read(parts):
            key = tuple(map(id, part.objects))
            _, text = self._parts[key] = known.get(key) or (part, self._write_part(part))
            for name, some in text.items():
                lines.setdefault(name, []).append(some)
        self._headers = {name: self._headers[name] for name in lines}
        for name, each in lines.items():
            yield self._headers[name]
            yield from each

    def _write_part(self, part: Part) -> dict[str, bytes]:
        written = {}
        for family in self._read(part.families()):
            text = self._encode(family)
            header = _HEADER.match(text)
            if text and header:
                self._headers[family.name] = header[0]
                written[family.name] = text[header.end() :]
        return written

    def _encode(self, family: Metric) -> bytes:
        try:
            return self._form.encode(_OneFamily(family)).removesuffix(self._form.end)
        except Exception as error:  # whatever it is, it must not take the other families down
            self._fail(family.name, error)
            return b""

    def _read(self, source: Iterable[Readable]) -> Iterator[Readable]:
        """What the source has, up to where it fails."""
        try:
            yield from source
        except Exception as error:  # as above
            self._fail("what comes next", error)

    def _fail(self, name: str, error: Exception) -> None:
        self._failed = True
        self._self_metrics.render_errors += 1
        if name not in self._reported:
            self._reported.add(name)
            # cut short: prometheus_client appends the whole family to the error's arguments
            _LOG.error("%s is left out of the page: %.200r", name, error)
