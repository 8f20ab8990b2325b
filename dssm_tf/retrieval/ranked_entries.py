"""From ranked distinct titles of an index to ranked entries of the corpus, with boosts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf.retrieval.maxsim_files import Arrays
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
        arrays: the numbers of the index.
    """
    starts = arrays.doc_starts
    entries: list[int] = []
    of_title: list[int] = []
    for i, title in enumerate(ranked.titles):
        docs = arrays.docs[starts[title] : starts[title + 1]]
        if allowed is not None:
            docs = docs[allowed.entries[docs]]
        entries += docs[: k - len(entries)].tolist()
        of_title += [i] * (len(entries) - len(of_title))
        if len(entries) == k:
            break
    return RankedEntries(entries, ranked.scores[of_title], ranked.titles[of_title])


def boosted_entries(
    ranked: RankedTitles,
    k: int,
    allowed: Filter | None,
    arrays: Arrays,
    added: NDArray[np.float32],
) -> RankedEntries:
    """The best `k` entries of ranked titles if each entry has boosts of its own.

    Args:
        ranked: the `k` titles with the largest sum of score and `largest_of_titles`.
        k: number of entries.
        allowed: the entries that may be returned; None for all.
        arrays: the numbers of the index.
        added: what boosts add to the score of each entry, `(entries of the corpus,)`.
    """
    every = best_entries(ranked, len(arrays.docs), allowed, arrays)
    scores = every.scores + added[every.entries]
    best = np.argsort(-scores, kind="stable")[:k]
    return RankedEntries(
        [every.entries[row] for row in best.tolist()], every.scores[best], every.titles[best]
    )


def largest_of_titles(
    added: NDArray[np.float32], arrays: Arrays, allowed: Filter | None
) -> NDArray[np.float32]:
    """The largest of the numbers of the entries of each distinct title, `(titles,)`.

    The best `k` titles by this bound have the best `k` entries: each further title has `k` titles
    before it with an entry that scores at least as high as all of its entries.

    Args:
        added: a number for each entry of the corpus.
        arrays: the numbers of the index.
        allowed: the entries that may be returned; None for all. Titles without such an entry get 0.
    """
    if allowed is not None:
        added = np.where(allowed.entries, added, np.float32(-np.inf))
    largest: NDArray[np.float32] = np.maximum.reduceat(added[arrays.docs], arrays.doc_starts[:-1])
    return largest if allowed is None else np.where(allowed.titles, largest, np.float32(0))
