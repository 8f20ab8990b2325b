"""Makes example queries for a corpus from its titles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from dssm_tf.retrieval.hits import shown_title
from dssm_tf.text.typos import with_typo

MAX_SAMPLED_TITLES = 2_000
"""The largest number of titles that examples are made from."""

_EXAMPLES, _TYPOS = 6, 2
_MIN_LETTERS = 4  # of a word; shorter ones are seldom good examples
_FIRST_WORDS = 3  # of a title; used if there are too few pairs of words
_MAX_LENGTH = 40  # characters


def examples_from_table(table: Any) -> list[str]:
    """Makes example queries for an index, see `examples_from_titles`.

    Args:
        table: Arrow table with the column `title`; every n-th title is used, at most
            `MAX_SAMPLED_TITLES`.
    """
    titles = table["title"]
    step = 1 + len(titles) // MAX_SAMPLED_TITLES
    return examples_from_titles([titles[row].as_py() for row in range(0, len(titles), step)])


def examples_from_titles(titles: Sequence[str]) -> list[str]:
    """Makes example queries; the last `_TYPOS` have a typing error.

    The examples are pairs of neighboring words, most frequent first, each word in one pair only;
    then, up to `_EXAMPLES`, the first words of titles. They are made from titles, because an index
    does not contain the queries of the log.

    Args:
        titles: some titles of the corpus.

    >>> examples_from_titles(["Ceiling Lamp, white", "Ceiling Lamp", "ceiling lamp with light"])[:2]
    ['ceiling lamp', 'with light']
    """
    counts: Counter[tuple[str, str]] = Counter()
    for title in titles:
        words = [word.strip(".,;:()").lower() for word in shown_title(title).split()]
        counts.update(
            pair
            for pair in dict.fromkeys(pairwise(words))
            if all(len(word) >= _MIN_LETTERS and word.isalpha() for word in pair)
        )
    queries: list[str] = []
    used: set[str] = set()
    for pair, _ in counts.most_common():
        if used.isdisjoint(pair) and len(" ".join(pair)) <= _MAX_LENGTH:
            queries.append(" ".join(pair))
            used.update(pair)
    step = 1 + len(titles) // _EXAMPLES
    queries += [" ".join(shown_title(title).split()[:_FIRST_WORDS]) for title in titles[::step]]
    distinct = [query for query in dict.fromkeys(queries) if 0 < len(query) <= _MAX_LENGTH]
    examples = distinct[:_EXAMPLES]
    return [*examples[:-_TYPOS], *map(with_typo, examples[-_TYPOS:])]
