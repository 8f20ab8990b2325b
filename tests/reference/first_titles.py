"""Grades of first titles, query by query, as S14 fig. 3 and table 7 count them.

Queries are the keys of `judged`; a ranking is a list of titles, best first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Grades = Mapping[str, Mapping[str, float]]
Rankings = Mapping[str, Sequence[str]]


def share(judged: Grades, ranked: Rankings, grade: float | None) -> float:
    """Per cent of the queries whose first title has this grade, None being not judged (fig. 3)."""
    having = [query for query in judged if judged[query].get(ranked[query][0]) == grade]
    return 100 * len(having) / len(judged)


def both(
    judged: Grades, one: Rankings, other: Rankings, grade: float | None, of_other: float | None
) -> int:
    """A cell of table 7: queries with `grade` first in `one` and `of_other` first in `other`."""
    return sum(
        judged[query].get(one[query][0]) == grade and judged[query].get(other[query][0]) == of_other
        for query in judged
    )
