"""Rounds the parts of a score so that they add up, for all texts that show a score."""

from __future__ import annotations

import math
from collections.abc import Mapping


def rounded_parts(parts: Mapping[str, float], total: float, digits: int) -> dict[str, float]:
    """Rounds numbers so that they add up to their rounded total.

    All are rounded down; then those with the largest remainders are rounded up instead.

    Args:
        parts: numbers that add up to about `total`.
        total: their sum.
        digits: digits after the point.

    >>> rounded_parts({"words": 0.8246, "pairs": 0.1042, "prior": -0.3144}, 0.6144, 2)
    {'words': 0.82, 'pairs': 0.1, 'prior': -0.31}
    """
    scale = 10**digits
    units = {name: math.floor(value * scale) for name, value in parts.items()}
    missing = round(total * scale) - sum(units.values())
    by_remainder = sorted(parts, key=lambda name: units[name] - parts[name] * scale)
    if missing < 0:  # the parts add up to a little more than the total
        by_remainder.reverse()
    for name in by_remainder[: abs(missing)]:
        units[name] += 1 if missing > 0 else -1
    return {name: value / scale for name, value in units.items()}
