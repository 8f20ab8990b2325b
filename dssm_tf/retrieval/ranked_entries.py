"""Turns ranked distinct titles of an index into ranked entries of the corpus, with boosts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf.retrieval.index_arrays import Arrays
from dssm_tf.retrieval.maxsim_ranking import Filter, RankedTitles


class RankedEntries(NamedTuple):
    """Entries of the corpus in the order of a result, with their scores and distinct titles.

    Attributes:
        entries: positions in the corpus.
        scores: float32 `(entries,)`, with the prior, without boosts.
        titles: int32 `(entries,)`, positions in the arrays of the index.
    """

    entries: list[int]
    scores: NDArray[np.float32]
    titles: NDArray[np.int32]


def best_entries(
    ranked: RankedTitles, k: int, allowed: Filter | None, arrays: Arrays
) -> RankedEntries:
    """The first `k` entries of ranked titles.

    Args:
        ranked: titles, best first.
        k: number of entries.
        allowed: the entries that may be returned; None for all.
        arrays: the arrays of the index.
    """
    starts = arrays.doc_starts
    entries: list[int] = []
    ranks: list[int] = []  # of the titles of the entries
    for rank, title in enumerate(ranked.titles):
        docs = arrays.docs[starts[title] : starts[title + 1]]
        if allowed is not None:
            docs = docs[allowed.entries[docs]]
        entries += docs[: k - len(entries)].tolist()
        ranks += [rank] * (len(entries) - len(ranks))
        if len(entries) == k:
            break
    return RankedEntries(entries, ranked.scores[ranks], ranked.titles[ranks])


def boosted_entries(
    ranked: RankedTitles,
    k: int,
    allowed: Filter | None,
    arrays: Arrays,
    added: NDArray[np.float32],
) -> RankedEntries:
    """The best `k` entries of ranked titles by score plus boosts.

    Args:
        ranked: the `k` titles with the largest sum of score and `largest_of_titles`.
        k: number of entries.
        allowed: the entries that may be returned; None for all.
        arrays: the arrays of the index.
        added: the number that boosts add to the score of each entry, `(entries of the corpus,)`.
    """
    candidates = best_entries(ranked, len(arrays.docs), allowed, arrays)
    boosted_scores = candidates.scores + added[candidates.entries]
    best = np.argsort(-boosted_scores, kind="stable")[:k]
    return RankedEntries(
        [candidates.entries[row] for row in best.tolist()],
        candidates.scores[best],
        candidates.titles[best],
    )


def largest_of_titles(
    added: NDArray[np.float32], arrays: Arrays, allowed: Filter | None
) -> NDArray[np.float32]:
    """For each distinct title, the largest of its entries' numbers, `(titles,)`.

    If the numbers are boosts, the best `k` entries are entries of the best `k` titles by score plus
    this number: each of these titles has an entry that scores at least as high as every entry of
    the titles after them.

    Args:
        added: a number for each entry of the corpus.
        arrays: the arrays of the index.
        allowed: the entries that may be returned; None for all. Titles without such an entry get 0.
    """
    if allowed is not None:
        added = np.where(allowed.entries, added, np.float32(-np.inf))
    largest: NDArray[np.float32] = np.maximum.reduceat(added[arrays.docs], arrays.doc_starts[:-1])
    return largest if allowed is None else np.where(allowed.titles, largest, np.float32(0))
