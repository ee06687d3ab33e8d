"""Where panels stand. Rows flow from left to right in the order they are written, and wrap at 24 columns; then
every panel has its place, its id and the letters of its queries."""

from typing import Any, Final

COLUMNS: Final = 24
ROW_HEIGHT: Final = 1

Json = dict[str, Any]


def laid_out(panels: list[Json]) -> list[Json]:
    """The panels of a board, each with `gridPos`, `id` and `refId`s. They come with the `w` and `h` of their
    `gridPos`; those of a collapsed row lie in it, and take no space until it is opened."""
    placed, y = _flow(panels, 0)
    assert y > 0, "a board without panels"
    for number, panel in enumerate(_all(placed), 1):
        panel["id"] = number
        for position, target in enumerate(panel.get("targets", [])):
            target["refId"] = letter(position)
    return placed


def letter(position: int) -> str:
    """Of a panel's query, from 0."""
    return chr(ord("A") + position)


def _flow(panels: list[Json], top: int) -> tuple[list[Json], int]:
    """The panels placed from `top` down, and where the next would begin."""
    x, y, line = 0, top, 0
    for panel in panels:
        if panel["type"] == "row":
            x, y, line = 0, y + line, 0
            panel["gridPos"] = {"x": 0, "y": y, "w": COLUMNS, "h": ROW_HEIGHT}
            _flow(panel["panels"], y + ROW_HEIGHT)
            y += ROW_HEIGHT
            continue
        width, height = panel["gridPos"]["w"], panel["gridPos"]["h"]
        if x + width > COLUMNS:
            x, y, line = 0, y + line, 0
        panel["gridPos"] |= {"x": x, "y": y}
        x, line = x + width, max(line, height)
    return panels, y + line


def _all(panels: list[Json]) -> list[Json]:
    return [one for panel in panels for one in (panel, *panel.get("panels", []))]
