"""Charts as inline SVG, in the colours of the pages."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

_COLORS = ("var(--accent)", "var(--loss)", "var(--gain)")
_DASHES = ("", "7 3", "2 3")  # so that lines differ without their colours, too
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 420, 240, 44, 34
_MAP_WIDTH, _MAP_HEIGHT = 900, 520
# Outlines from a point's place, so that kinds differ without their colours, too.
_CIRCLE = "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0"
_SHAPES = (
    _CIRCLE,
    "m-3.5 -3.5h7v7h-7z",
    "m0 -5l4.5 8h-9z",
    "m0 -5l5 5l-5 5l-5 -5z",
    "m0 5l4.5 -8h-9z",
    "m-1.5 -5h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5v-3h3.5z",
)


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


def interval_chart(
    title: str, values: Sequence[float], intervals: Sequence[Sequence[float]] = ()
) -> str:
    """Values at 1, 2, ... as inline SVG, each with its interval, from 0 to 1 or to the highest.

    Args:
        title: what is drawn.
        values: 0 or more.
        intervals: `(low, high)` of each, or none at all.
    """
    top = max([1.0, *values, *(min(high, 2.0) for _, high in intervals)])
    step = (_WIDTH - _LEFT - 12) / max(len(values), 1)

    def x(place: int) -> float:
        return _LEFT + (place + 0.5) * step

    def y(value: float) -> float:
        return 14 + (1 - min(value, top) / top) * (_HEIGHT - _BOTTOM - 14)

    marks = []
    for value in (0.0, 0.25, 0.5, 0.75, 1.0):
        at = y(value)
        marks.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - 12}" y1="{at:.1f}" y2="{at:.1f}" '
            f'style="stroke:var(--line)"/>'
            f'<text x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{value:.2f}</text>'
        )
    for place, value in enumerate(values):
        shown = f"{place + 1}: {value:.3f}"
        if intervals:
            low, high = intervals[place]
            shown += f", from {low:.3f} to {high:.3f}"
            marks.append(
                f'<line x1="{x(place):.1f}" x2="{x(place):.1f}" y1="{y(low):.1f}" '
                f'y2="{y(high):.1f}" {_stroke(0)} stroke-width="2"/>'
            )
        marks.append(
            f'<circle cx="{x(place):.1f}" cy="{y(value):.1f}" r="3.5" style="fill:var(--accent)">'
            f"<title>{shown}</title></circle>"
        )
        if not place % (1 + len(values) // 20):
            marks.append(
                f'<text x="{x(place):.1f}" y="{_HEIGHT - 16}" text-anchor="middle">'
                f"{place + 1}</text>"
            )
    return (
        f'<figure><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">'
        f"{''.join(marks)}</svg><figcaption>{escape(title)}</figcaption></figure>"
    )


def _stroke(place: int) -> str:
    """Colour and dashes of a line by its place."""
    dashes = _DASHES[(place // len(_COLORS) + place) % len(_DASHES)]
    return f'style="stroke:{_COLORS[place % len(_COLORS)]}" stroke-dasharray="{dashes}"'


def point_map(
    points: NDArray[np.floating], names: Sequence[str], label: str, kinds: Sequence[str] = ()
) -> str:
    """Named points in a plane as inline SVG; `map.js` names the one that is pointed at.

    Args:
        points: `(names, 2)`.
        names: of the points.
        label: what is drawn.
        kinds: what each point is coloured and shaped by, with a legend; the most frequent kinds
            alone where there are more than there are colours.
    """
    low, high = points.min(axis=0), points.max(axis=0)
    span = np.maximum(high - low, 1e-12)
    size = np.array([_MAP_WIDTH, _MAP_HEIGHT])
    places = 12 + (points - low) / span * (size - 24)
    places[:, 1] = _MAP_HEIGHT - places[:, 1]
    shown = [kind for kind, _ in Counter(kinds).most_common(len(_SHAPES))]
    marks = []
    for row, ((x, y), name) in enumerate(zip(places, names, strict=True)):
        kind, about = (kinds[row], f"{name} ({kinds[row]})") if kinds else (None, name)
        marks.append(
            f'<path class="{_kind(kind, shown)}" data-name="{escape(about)}" data-x="{x:.1f}" '
            f'data-y="{y:.1f}" d="M{x:.1f} {y:.1f}{_shape(kind, shown)}"/>'
        )
    legend = " ".join(
        f'<span class="key"><svg class="mark" viewBox="-6 -6 12 12"><path '
        f'class="{_kind(kind, shown)}" d="M0 0{_shape(kind, shown)}"/></svg> {escape(kind)} '
        f"{sum(one == kind for one in kinds):,}</span>"
        for kind in shown
    )
    if others := sum(kind not in shown for kind in kinds):
        legend += (
            f'<span class="key"><svg class="mark" viewBox="-6 -6 12 12"><path class="other" '
            f'd="M0 0{_CIRCLE}"/></svg> {len(set(kinds)) - len(shown):,} others {others:,}</span>'
        )
    return (
        f'<figure><svg class="map" viewBox="0 0 {_MAP_WIDTH} {_MAP_HEIGHT}" role="application" '
        f'tabindex="0" aria-label="{escape(label)} Arrow keys move from point to point.">'
        f'{"".join(marks)}</svg><output aria-live="polite">&nbsp;</output>'
        f"<p>{legend}</p><figcaption>{escape(label)}</figcaption></figure>"
    )


def _kind(kind: str | None, shown: Sequence[str]) -> str:
    """The class of a point: the colour of its kind, or of all points that have none."""
    if kind is None:
        return "point"
    return f"kind{shown.index(kind)}" if kind in shown else "other"


def _shape(kind: str | None, shown: Sequence[str]) -> str:
    return _SHAPES[shown.index(kind)] if kind in shown else _CIRCLE
