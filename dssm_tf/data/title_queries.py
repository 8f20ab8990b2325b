"""Makes queries from words of titles, for validation without clicks and judgments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.text.fields import split_mark
from dssm_tf.text.typos import with_typo

MIN_WORDS, MAX_WORDS = 2, 4
"""Number of words of a query."""


class TitleQuery(NamedTuple):
    """A query made from a title.

    Args:
        text: the query, which may have a typing error.
        title: index of the title.
        words: indices of the words of the query without its typing error.
    """

    text: str
    title: int
    words: tuple[int, ...]


def draw_title_queries(data: Preprocessed, count: int, seed: int) -> list[TitleQuery]:
    """Makes queries from randomly drawn titles, at most one per title.

    A query is two to four different words of its title, in their order, and never all of them, so
    only titles with at least three different words are drawn. The words of every second query are
    neighbors in the title; the other queries have random words. Every second query of both kinds
    has a typing error in its longest word; see `with_typo`. Words that are all words of another
    title are not used: they would be that title's query.

    Args:
        data: the preprocessed directory.
        count: maximum number of queries. A smaller number gives the first of the same queries.
        seed: seed of the titles, the words and their number.

    Returns:
        Queries with distinct texts.
    """
    plain_words, same_word = _plain_words(data)
    titles = data.words("titles")
    title_word_sets = _WordSets(titles, same_word)
    random = np.random.default_rng(seed)
    queries: dict[str, TitleQuery] = {}
    for title in random.permutation(len(titles)).tolist():
        if len(queries) == count:
            break
        in_title = titles[title].as_py()
        first = {plain_words[word]: word for word in reversed(in_title)}  # in any field
        if len(first) <= MIN_WORDS:
            continue
        are_neighbors, has_typo = len(queries) % 2 == 0, len(queries) // 2 % 2 == 0
        size = int(random.integers(MIN_WORDS, min(MAX_WORDS, len(first) - 1) + 1))
        if are_neighbors:
            start = int(random.integers(len(in_title) - size + 1))
            chosen = dict.fromkeys(plain_words[word] for word in in_title[start : start + size])
        else:
            in_order = list(dict.fromkeys(plain_words[word] for word in in_title))
            positions = np.sort(random.choice(len(in_order), size, replace=False))
            chosen = dict.fromkeys(in_order[index] for index in positions)
        indices = tuple(first[word] for word in chosen)
        text = " ".join(chosen)
        text = with_typo(text) if has_typo else text
        if len(chosen) >= MIN_WORDS and text not in queries and indices not in title_word_sets:
            queries[text] = TitleQuery(text, title, indices)
    return list(queries.values())


def _plain_words(data: Preprocessed) -> tuple[list[str], NDArray[np.int64]]:
    """Each word without the mark of its field, and the first index of the same plain word."""
    plain = [split_mark(word)[1] for word in data.distinct_words[0]]
    first: dict[str, int] = {}
    return plain, np.array([first.setdefault(word, index) for index, word in enumerate(plain)])


class _WordSets:
    """The sets of words of all titles, to look up whether a title has exactly some words.

    Each word has a random number; a set is represented by the sum of its numbers.

    Args:
        titles: word indices of each title.
        same_word: see `_plain_words`.
    """

    def __init__(self, titles: pa.ListArray, same_word: NDArray[np.int64]) -> None:
        count = len(same_word)
        random = np.random.default_rng(0)
        self._numbers = random.integers(1 << 62, size=count, dtype=np.uint64)[same_word]
        title_of_word = titles.value_parent_indices().to_numpy()
        pairs = np.unique(title_of_word * count + same_word[titles.flatten().to_numpy()])
        sums = np.zeros(len(titles), np.uint64)
        np.add.at(sums, pairs // count, self._numbers[pairs % count])
        self._sums = {*sums.tolist()}

    def __contains__(self, words: Sequence[int]) -> bool:
        return int(self._numbers[[*words]].sum()) in self._sums


def titles_with_all_words(
    data: Preprocessed, titles: NDArray[np.int64], queries: Iterable[TitleQuery]
) -> Iterator[NDArray[np.int64]]:
    """For each query, the titles that have all of its words, in any field and order.

    Args:
        data: the preprocessed directory.
        titles: indices of the titles to search.
        queries: the queries, without their typing errors.

    Yields:
        Positions in `titles`, increasing.
    """
    _, same_word = _plain_words(data)
    lists = data.words("titles").take(pa.array(titles))
    positions, words = (
        lists.value_parent_indices().to_numpy(),
        same_word[lists.flatten().to_numpy()],
    )
    columns = sparse.csc_array(
        (np.ones(len(words), np.int8), (positions, words)), (len(titles), len(same_word))
    )
    for query in queries:
        bounds = [columns.indptr[[word, word + 1]] for word in same_word[[*query.words]]]
        yield reduce(np.intersect1d, [columns.indices[start:end] for start, end in bounds])
