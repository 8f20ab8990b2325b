"""Judged queries with a typing error, ranked beside the queries as they are."""

from __future__ import annotations

import re
from collections.abc import Iterable
from random import Random
from string import ascii_lowercase

from dssm_tf.tables.judgments import Judgment

SUFFIX = "~typo"
"""How the id of a query with a typing error ends; before it stands that of the query itself."""

_LEAST = 4  # letters of a word that gets an error


def with_typo(query: str) -> str:
    """A query with one edit in its longest word, the first of equals; the same in every run.

    A letter after the first is left out, replaced, preceded by another one, or swapped with the
    next, all alike likely. A query whose words have fewer than four letters stays as it is.

    >>> with_typo("angle bracket"), with_typo("3 in. box")
    ('angle barcket', '3 in. box')
    """
    words = re.finditer(r"[^\W\d_]+", query)
    longest = max(words, key=lambda word: len(word[0]), default=None)
    if longest is None or len(longest[0]) < _LEAST:
        return query
    random = Random(query)
    place = longest.start() + random.randrange(1, len(longest[0]) - 1)
    before, first, second, after = query[:place], *query[place : place + 2], query[place + 2 :]
    other = random.choice(ascii_lowercase.replace(first.lower(), ""))
    edits = [
        second + after,
        other + second + after,
        other + first + second + after,
        second + first + after,
    ]
    return before + random.choice([one for one in edits if before + one != query])


def misspelt(judgments: Iterable[Judgment]) -> list[Judgment]:
    """The same grades for each query with a typing error."""
    return [
        one._replace(query_id=one.query_id + SUFFIX, query=with_typo(one.query))
        for one in judgments
    ]
