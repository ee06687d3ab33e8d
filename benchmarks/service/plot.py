"""Curves above each other, as an SVG file: enough for the few plots of the docs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, TOP = 640, 150, 70, 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """Each has a panel, its vertical axis from 0."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


def plot(path: str, *, x: str, curves: Sequence[Curve]) -> None:
    """Write the file; `x` names the horizontal axis."""
    height = len(curves) * HEIGHT + 30
    panels = "".join(_panel(curve, number * HEIGHT + TOP) for number, curve in enumerate(curves))
    Path(path).write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="white"/>\n'
        f'{panels}<text x="{WIDTH / 2}" y="{height - 6}" text-anchor="middle">{escape(x)}</text>\n</svg>\n',
        encoding="utf-8",
    )


def _panel(curve: Curve, top: float) -> str:
    high, far = max(curve.y) or 1.0, max(curve.x)
    depth, width = HEIGHT - 50, WIDTH - LEFT - 30
    places = [
        (LEFT + x / far * width, top + depth - y / high * depth)
        for x, y in zip(curve.x, curve.y, strict=True)
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="#1f77b4"/>' for x, y in places)
    labels = "".join(
        f'<text x="{x:.1f}" y="{top + depth + 16}" text-anchor="middle">{value:g}</text>'
        for (x, _), value in zip(places, curve.x, strict=True)
    )
    return (
        f'<text x="{LEFT}" y="{top - 8}">{escape(curve.name)}</text>\n'
        f'<path d="M{LEFT} {top} V{top + depth} H{LEFT + width}" fill="none" stroke="#888"/>\n'
        f'<text x="{LEFT - 6}" y="{top + 8}" text-anchor="end">{high:,.4g}</text>\n'
        f'<text x="{LEFT - 6}" y="{top + depth}" text-anchor="end">0</text>\n'
        f'<polyline points="{line}" fill="none" stroke="#1f77b4" stroke-width="2"/>\n{dots}\n{labels}\n'
    )
