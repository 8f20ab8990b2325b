"""Charts as inline SVG, in the colours of the pages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

_COLORS = ("var(--accent)", "var(--loss)", "var(--gain)")
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 420, 240, 44, 34
_MAP_WIDTH, _MAP_HEIGHT = 900, 520


def line_chart(
    title: str, lines: Mapping[str, Sequence[float]], *, logarithmic: bool = False
) -> str:
    """Curves over epochs as inline SVG, with a legend.

    Args:
        title: what is drawn.
        lines: values at epochs 1, 2, ..., a curve a name.
        logarithmic: whether their axis is, where all values are above 0.
    """
    logarithmic = logarithmic and all(value > 0 for line in lines.values() for value in line)
    if logarithmic:
        lines = {name: [math.log(value) for value in line] for name, line in lines.items()}
    values = [value for line in lines.values() for value in line]
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    longest = max(max(len(line) for line in lines.values()) - 1, 1)

    def x(epoch: int) -> float:
        return _LEFT + epoch / longest * (_WIDTH - _LEFT - 12)

    def y(value: float) -> float:
        return 14 + (high - value) / span * (_HEIGHT - _BOTTOM - 14)

    def shown(value: float) -> str:
        return f"{math.exp(value) if logarithmic else value:.2f}"

    marks = []
    for value in np.linspace(low, high, 4):
        at = y(float(value))
        marks.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - 12}" y1="{at:.1f}" y2="{at:.1f}" '
            'style="stroke:var(--line)"/>'
            f'<text x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{shown(float(value))}</text>'
        )
    for epoch in sorted({0, longest // 2, longest}):
        marks.append(
            f'<text x="{x(epoch):.1f}" y="{_HEIGHT - 16}" text-anchor="middle">{epoch + 1}</text>'
        )
    marks.append(
        f'<text x="{(_LEFT + _WIDTH) / 2}" y="{_HEIGHT - 2}" text-anchor="middle">epoch</text>'
    )
    for color, line in zip(_COLORS, lines.values(), strict=False):
        points = " ".join(f"{x(i):.1f},{y(value):.1f}" for i, value in enumerate(line))
        marks.append(
            f'<polyline points="{points}" fill="none" style="stroke:{color}" stroke-width="2"/>'
        )
    legend = " ".join(
        f'<span style="color:{color}">&#9679;</span> {escape(name)}'
        for color, name in zip(_COLORS, lines, strict=False)
    )
    return (
        f'<figure><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">'
        f"{''.join(marks)}</svg><figcaption>{escape(title)}: {legend}</figcaption></figure>"
    )


def point_map(points: NDArray[np.floating], names: Sequence[str], label: str) -> str:
    """Named points in a plane as inline SVG; a point tells its name when one rests on it.

    Args:
        points: `(names, 2)`.
        names: of the points.
        label: what is drawn.
    """
    low, high = points.min(axis=0), points.max(axis=0)
    span = np.maximum(high - low, 1e-12)
    size = np.array([_MAP_WIDTH, _MAP_HEIGHT])
    places = 12 + (points - low) / span * (size - 24)
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{_MAP_HEIGHT - y:.1f}" r="4" tabindex="-1">'
        f"<title>{escape(name)}</title></circle>"
        for (x, y), name in zip(places, names, strict=True)
    )
    return (
        f'<figure><svg class="map" viewBox="0 0 {_MAP_WIDTH} {_MAP_HEIGHT}" role="img" '
        f'aria-label="{escape(label)}">{dots}</svg><figcaption>{escape(label)}</figcaption></figure>'
    )
