"""Charts as inline SVG, in the colours of the pages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

_COLORS = ("var(--accent)", "var(--loss)", "var(--gain)")
_DASHES = ("", "7 3", "2 3")  # so that lines differ without their colours, too
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 420, 240, 44, 34


def line_chart(
    title: str,
    lines: Mapping[str, Sequence[float]],
    ticks: Sequence[str] = (),
    *,
    logarithmic: bool = False,
) -> str:
    """Curves as inline SVG, with a legend.

    Args:
        title: what is drawn.
        lines: values at epochs 1, 2, ..., or at the ticks, a curve a name.
        ticks: what stands under the values, if these are not epochs.
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
    for place in range(len(ticks)) if ticks else sorted({0, longest // 2, longest}):
        text = escape(ticks[place]) if ticks else place + 1
        marks.append(
            f'<text x="{x(place):.1f}" y="{_HEIGHT - 16}" text-anchor="middle">{text}</text>'
        )
    marks.append(
        f'<text x="{(_LEFT + _WIDTH) / 2}" y="{_HEIGHT - 2}" text-anchor="middle">'
        f"{'' if ticks else 'epoch'}</text>"
    )
    for place, line in enumerate(lines.values()):
        points = " ".join(f"{x(i):.1f},{y(value):.1f}" for i, value in enumerate(line))
        marks.append(f'<polyline points="{points}" fill="none" {_stroke(place)} stroke-width="2"/>')
    legend = " ".join(
        f'<span class="key"><svg class="line" viewBox="0 0 24 8"><line x1="0" x2="24" y1="4" '
        f'y2="4" {_stroke(place)} stroke-width="2.5"/></svg> {escape(name)}</span>'
        for place, name in enumerate(lines)
    )
    return (
        f'<figure><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">'
        f"{''.join(marks)}</svg><figcaption>{escape(title)}: {legend}</figcaption></figure>"
    )


def _stroke(place: int) -> str:
    """Colour and dashes of a line by its place."""
    dashes = _DASHES[(place // len(_COLORS) + place) % len(_DASHES)]
    return f'style="stroke:{_COLORS[place % len(_COLORS)]}" stroke-dasharray="{dashes}"'
