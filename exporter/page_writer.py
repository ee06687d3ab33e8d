"""Families -> the text of a page in one format. What has not changed since the last page is not written again.

families   written when a sample of theirs has changed
parts      said of what never changes, as sealed versions: written once, the lines of each family by themselves
blocks     of parts that follow each other: put together once, so that a page is made of few pieces
"""

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeVar

from prometheus_client.core import Metric
from prometheus_client.samples import Sample

from exporter.family_text import FamilyText
from exporter.negotiation import Format
from exporter.self_metrics import SelfMetrics

_LOG = logging.getLogger(__name__)

Readable = TypeVar("Readable")


class Part(NamedTuple):
    """What the page says of some `objects` that never change; where there is more to say, there is another object."""

    objects: tuple[object, ...]
    families: Callable[[], Iterable[Metric]]


_BLOCK_PARTS: Final = 64
"""Few pieces to put a page together from, and few parts to go through again when a block loses its first."""

_MOST_REPORTED: Final = 100
"""Failures that the log tells apart, each of which is said once."""

Lines = dict[str, bytes]
"""By name of the family."""


class _WrittenPart(NamedTuple):
    part: Part
    """Held so that the ids of its objects stay taken."""
    lines: Lines
    series: int
    closes: bool
    """Whether this part is the last of its block. Fixed when the part is first written: parts that leave at the front
    then shift no other block, which would have to be joined again."""


class PageWriter:
    """Remembers what is on the last page, and no more."""

    def __init__(self, form: Format, self_metrics: SelfMetrics) -> None:
        self._form = form
        self._self_metrics = self_metrics
        self._families: dict[str, tuple[list[Sample], FamilyText]] = {}
        self._parts: dict[tuple[int, ...], _WrittenPart] = {}
        """By the ids of its objects."""
        self._numbers = itertools.count(1)
        self._blocks: dict[tuple[int, ...], Lines] = {}
        """By the ids of the lines of its parts."""
        self._headers: dict[str, bytes] = {}
        """HELP and TYPE of the families of parts."""
        self._failed = False
        self._reported: set[str] = set()
        """Lines of the log."""

    def write(self, families: Iterable[Metric], parts: Iterable[Part]) -> tuple[list[bytes], bool]:
        """The page in pieces, and whether all could be read and written. No family is in both arguments."""
        self._failed = False
        texts = [*self._write_families(families), *self._write_parts(parts)]
        return texts, not self._failed

    @property
    def series(self) -> int:
        """How many the last page has."""
        changing = sum(len(samples) for samples, _ in self._families.values())
        return changing + sum(part.series for part in self._parts.values())

    def _write_families(self, families: Iterable[Metric]) -> Iterator[bytes]:
        known, self._families = self._families, {}
        for family in self._read(families):
            samples, text = known.get(family.name, (None, None))
            if text is None or samples != family.samples:
                text = self._write_family(family)
            if text is not None:
                self._families[family.name] = (family.samples, text)
                yield from text

    def _write_parts(self, parts: Iterable[Part]) -> Iterator[bytes]:
        pieces: dict[str, list[bytes]] = {}
        for block in self._write_blocks(parts):
            for name, lines in block.items():
                pieces.setdefault(name, []).append(lines)
        self._headers = {name: self._headers[name] for name in pieces}
        for name, each in pieces.items():
            yield self._headers[name]
            yield from each

    def _write_blocks(self, parts: Iterable[Part]) -> Iterator[Lines]:
        known_parts, self._parts = self._parts, {}
        known_blocks, self._blocks = self._blocks, {}
        block: list[Lines] = []
        for part in self._read(parts):
            key = tuple(map(id, part.objects))
            written = self._parts[key] = known_parts.get(key) or self._write_part(part)
            block.append(written.lines)
            if written.closes:
                yield self._join(block, known_blocks)
                block = []
        yield self._join(block, known_blocks)

    def _join(self, block: list[Lines], known: Mapping[tuple[int, ...], Lines]) -> Lines:
        """Joins a block. While it is the last one it grows by a part at a time, so what was joined for the last page is
        reused and only the new parts are appended."""
        ids = tuple(map(id, block))
        begun = next((ids[:length] for length in range(len(ids), 0, -1) if ids[:length] in known), ())
        lines, rest = known.get(begun, {}), block[len(begun) :]
        self._blocks[ids] = _joined([lines, *rest]) if rest else lines
        return self._blocks[ids]

    def _write_part(self, part: Part) -> _WrittenPart:
        written = {}
        for family in self._read(part.families()):
            text = self._write_family(family)
            if text is not None:
                self._headers[family.name], written[family.name] = text
        series = sum(text.count(b"\n") for text in written.values())
        return _WrittenPart(part, written, series, closes=next(self._numbers) % _BLOCK_PARTS == 0)

    def _write_family(self, family: Metric) -> FamilyText | None:
        try:
            return self._form.write(family)
        except Exception as error:  # whatever it is, it must not take the other families down
            self._fail(family.name, error)
            return None

    def _read(self, source: Iterable[Readable]) -> Iterator[Readable]:
        """What the source has, up to where it fails. A group of errors is of what it has left out itself."""
        try:
            yield from source
        except ExceptionGroup as group:
            for error in group.exceptions:
                self._fail("a part", error)
        except Exception as error:  # as above
            self._fail("what comes next", error)

    def _fail(self, what: str, error: Exception) -> None:
        self._failed = True
        self._self_metrics.render_errors += 1
        # cut short: an error of encoding says all the text that it was given
        line = f"{what} is left out of the page: {error!r:.200}"
        if line not in self._reported and len(self._reported) < _MOST_REPORTED:
            self._reported.add(line)
            _LOG.error("%s", line)


def _joined(block: list[Lines]) -> Lines:
    pieces: dict[str, list[bytes]] = {}
    for lines in block:
        for name, text in lines.items():
            pieces.setdefault(name, []).append(text)
    return {name: b"".join(texts) for name, texts in pieces.items()}
