"""A table and a sparkline in plain text: the exporter alone brings no package that draws them."""

import sys
from collections.abc import Sequence

_BARS = "".join(chr(0x2581 + level) for level in range(8))
_ASCII_BARS = "_.,-=+*#"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell, two spaces apart; a column that holds only numbers is right-aligned."""
    head, *rows = ([_printable(cell) for cell in row] for row in (head, *rows))
    columns = list(zip(head, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    numeric = [all(_is_number(cell) for cell in column[1:]) for column in columns]
    lines = [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in (head, *rows)
    ]
    return "".join(f"{line}\n" for line in lines)


def _printable(cell: str) -> str:
    """What a sender named must not steer the terminal."""
    return "".join(character if character.isprintable() else "?" for character in cell)


def _is_number(cell: str) -> bool:
    return not cell.strip("-+.0123456789e")


def sparkline(values: Sequence[float | None]) -> str:
    """One bar per value, from the least to the greatest of them; a space where there is none."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    low, span = min(known), max(known) - min(known)
    bars = _bars()
    return "".join(
        " " if value is None else bars[round((value - low) / span * (len(bars) - 1)) if span else 0]
        for value in values
    )


def _bars() -> str:
    try:
        _BARS.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return _ASCII_BARS
    return _BARS
