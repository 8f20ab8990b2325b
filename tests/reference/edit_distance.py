"""The optimal string alignment distance, from its recursive definition (Damerau 1964)."""

from __future__ import annotations

from functools import cache


@cache
def distance(first: str, second: str) -> int:
    """The number of insertions, deletions, replacements and swaps of neighbors."""
    if not first or not second:
        return len(first) + len(second)
    choices = [
        distance(first[:-1], second) + 1,
        distance(first, second[:-1]) + 1,
        distance(first[:-1], second[:-1]) + (first[-1] != second[-1]),
    ]
    if len(first) > 1 and len(second) > 1 and first[-2:] == second[-1] + second[-2]:
        choices.append(distance(first[:-2], second[:-2]) + 1)
    return min(choices)
