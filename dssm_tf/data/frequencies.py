"""Counts in how many titles words, pairs of neighboring words and letter n-grams occur."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.text.document_frequencies import DocumentFrequencies

_BLOCK = 1 << 15
"""Titles whose letter n-grams are in memory at a time."""


def count_document_frequencies(names: Sequence[str], titles: pa.ListArray) -> DocumentFrequencies:
    """Numbers of titles that contain each word and each known pair.

    Args:
        names: the distinct words.
        titles: the word indices of each title.
    """
    words = titles.flatten().to_numpy()
    title = titles.value_parent_indices().to_numpy()
    word_ids, word_counts = _count_titles(words, title)
    word_frequencies = dict(
        zip((names[word] for word in word_ids.tolist()), word_counts.tolist(), strict=True)
    )
    are_neighbors = title[:-1] == title[1:]
    keys = words[:-1][are_neighbors].astype(np.int64) * len(names) + words[1:][are_neighbors]
    keys, pair_counts = _count_titles(keys, title[:-1][are_neighbors])
    is_known = pair_counts > 1
    pairs = {}
    for key, count in zip(keys[is_known].tolist(), pair_counts[is_known].tolist(), strict=True):
        first, second = divmod(key, len(names))
        pairs[f"{names[first]} {names[second]}"] = count
    return DocumentFrequencies(len(titles), word_frequencies, pairs)


def _count_titles(
    items: NDArray[np.integer[Any]], titles: NDArray[np.integer[Any]]
) -> tuple[NDArray[np.integer[Any]], NDArray[np.int64]]:
    """The distinct items, increasing, and the number of titles that contain each.

    Args:
        items: items of titles.
        titles: the title of each item; never decreases.
    """
    order = np.argsort(items, kind="stable")  # so the titles of an item stay in their order
    items, titles = items[order], titles[order]
    is_new_item = np.append(True, items[1:] != items[:-1])[: len(items)]
    is_new_title = np.append(True, titles[1:] != titles[:-1])[: len(items)]
    distinct = items[is_new_item | is_new_title]
    starts = np.flatnonzero(np.append(True, distinct[1:] != distinct[:-1])[: len(distinct)])
    return distinct[starts], np.diff(np.append(starts, len(distinct)))


def count_titles_of_ngrams(
    titles: pa.ListArray, ngrams: pa.ListArray, size: int
) -> NDArray[np.int64]:
    """The number of titles with each letter n-gram or whole word, int64 `(size,)`.

    Args:
        titles: the word indices of each title.
        ngrams: the n-gram ids of each word.
        size: number of ids.
    """
    ngrams_of_words = _count_matrix(ngrams, size)
    result = np.zeros(size, np.int64)
    for start in range(0, len(titles), _BLOCK):
        words_of_titles = _count_matrix(titles.slice(start, _BLOCK), len(ngrams))
        # Each distinct id of a title is one cell of the product.
        result += np.bincount((words_of_titles @ ngrams_of_words).indices, minlength=size)
    return result


def _count_matrix(lists: pa.ListArray, columns: int) -> sparse.csr_array:
    """How often each list has each value, `(lists, columns)`."""
    lengths = lists.value_lengths().to_numpy()
    values = lists.flatten().to_numpy()
    starts = np.append(0, np.cumsum(lengths, dtype=np.int64))
    return sparse.csr_array((np.ones(len(values), np.int32), values, starts), (len(lists), columns))
