"""Grades of first titles, counted query by query as in Shen et al. 2014, fig. 3 and table 7.

Queries are the keys of `judged`; a ranking is a list of titles, best first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Grades = Mapping[str, Mapping[str, float]]
Rankings = Mapping[str, Sequence[str]]


def percentage(judged: Grades, ranked: Rankings, grade: float | None) -> float:
    """Percentage of the queries whose first title has this grade; None: not judged (fig. 3)."""
    queries = [query for query in judged if judged[query].get(ranked[query][0]) == grade]
    return 100 * len(queries) / len(judged)


def count_pairs(
    judged: Grades, a: Rankings, b: Rankings, grade_a: float | None, grade_b: float | None
) -> int:
    """A cell of table 7: queries with `grade_a` first in `a` and `grade_b` first in `b`."""
    return sum(
        judged[query].get(a[query][0]) == grade_a and judged[query].get(b[query][0]) == grade_b
        for query in judged
    )
