"""Bi-phrases: pairs of short phrases that translate each other, extracted from word alignments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.baselines.tokens import Ids, Tokens

Links = NDArray[np.bool_]

_BLOCK_PAIRS = 512  # pairs aligned at once
_MAX_WORDS = 100  # words per text that are aligned; queries and titles are shorter
_TIE = 1e-6  # above rounding errors, below the differences of unequal probabilities
_LARGEST_VOCABULARY = 2_000_000  # three ids and their length still fit into an int64


class PairBlock(NamedTuple):
    """Some pairs of texts, padded to the longest.

    Attributes:
        pairs: their indices, `(pairs,)`.
        queries: `(pairs, J)` ids of the query's words, -1 behind the end.
        titles: `(pairs, I)` ids of the title's words, -1 behind the end.
    """

    pairs: Ids
    queries: Ids
    titles: Ids


def pair_blocks(queries: Tokens, titles: Tokens) -> Iterator[PairBlock]:
    """All pairs, those of similar lengths together; texts are truncated to 100 words."""
    order = np.lexsort([np.minimum(texts.lengths, _MAX_WORDS) for texts in (titles, queries)])
    for start in range(0, len(order), _BLOCK_PAIRS):
        pairs = order[start : start + _BLOCK_PAIRS]
        yield PairBlock(pairs, _padded(queries, pairs), _padded(titles, pairs))


def _padded(texts: Tokens, rows: Ids) -> Ids:
    width = min(texts.lengths[rows].max(), _MAX_WORDS)
    positions = texts.starts[rows][:, None] + np.arange(width)
    inside = positions < texts.starts[rows + 1][:, None]
    padded = np.full(positions.shape, -1)
    padded[inside] = texts.ids[positions[inside]]
    return padded


def align(block: PairBlock, to_query: sparse.csr_matrix, to_title: sparse.csr_matrix) -> Links:
    """The symmetrized word alignment of each pair: `(pairs, J, I)`.

    Each query word is linked to the title word that most likely gave it, and each title word to
    the query word that most likely gave it, where anything could. Of equally likely words the same
    word comes first, then the first in the text: words of one title that are in no other are
    equally likely, and there are many in a small log. The two directions are joined by
    `symmetrize`.

    Args:
        block: the pairs.
        to_query: `P(query word | title word)`, `(words, words)`.
        to_title: `P(title word | query word)`, `(words, words)`.
    """
    queries, titles = np.broadcast_arrays(block.queries[:, :, None], block.titles[:, None, :])
    inside = (queries >= 0) & (titles >= 0)
    query, title = queries[inside], titles[inside]
    tie_break = 1 + _TIE * (query == title)
    forward, backward = np.zeros((2, *inside.shape))
    forward[inside] = np.asarray(to_query[title, query]).ravel() * tie_break
    backward[inside] = np.asarray(to_title[query, title]).ravel() * tie_break
    return symmetrize(_best(forward, 2), _best(backward, 1))


def _best(probabilities: NDArray[np.float64], axis: int) -> Links:
    """The first of the largest along the axis, if it is above 0."""
    best = np.zeros(probabilities.shape, dtype=bool)
    first = np.expand_dims(probabilities.argmax(axis), axis)
    np.put_along_axis(best, first, np.take_along_axis(probabilities, first, axis) > 0, axis)
    return best


def symmetrize(query_links: Links, title_links: Links) -> Links:
    """Joins the alignments of the two directions: grow-diag-final-and.

    It starts from the links in both directions. Links of either direction are added in reading
    order, repeatedly, until none is added: a link must touch an added one, also diagonally, and its
    query word or its title word must have no link yet. Finally it adds the links of either
    direction whose words both have no link.

    Args:
        query_links: `(pairs, J, I)`, at most one link per query word.
        title_links: `(pairs, J, I)`, at most one link per title word.

    Reference: Och and Ney 2003, sec. 4.3; Koehn, Och and Marcu 2003, sec. 3.
    """
    both, either = query_links & title_links, query_links | title_links
    links = both.copy()
    # Cells are visited one by one, because their order matters; all pairs at the same time.
    cells = np.argwhere((either & ~both).any(axis=0)).tolist()

    def free(j: int, i: int) -> tuple[Links, Links]:
        return ~links[:, j].any(axis=1), ~links[:, :, i].any(axis=1)

    grown = True
    while grown:
        before = links.sum()
        for j, i in cells:
            near = links[:, max(j - 1, 0) : j + 2, max(i - 1, 0) : i + 2].any(axis=(1, 2))
            links[:, j, i] |= either[:, j, i] & near & np.logical_or(*free(j, i))
        grown = links.sum() > before
    for j, i in cells:
        links[:, j, i] |= either[:, j, i] & np.logical_and(*free(j, i))
    return links


def consistent_phrases(
    links: Links, block: PairBlock, longest: int
) -> Iterator[tuple[int, int, Ids, Ids, Ids]]:
    """Every bi-phrase of up to `longest` words a side that no link leaves.

    A phrase of the query and one of the title are a bi-phrase when at least one link joins them
    and no word of either is linked outside the other. Words without a link may lie at the ends.

    Yields:
        Words of the query phrase and of the title phrase, and for all bi-phrases of those lengths
        the row in the block, the first word in the query and the first word in the title.

    Reference: Och, Tillmann and Ney 1999; Koehn, Och and Marcu 2003, sec. 2.
    """
    height, width = links.shape[1:]
    # sums[:, j, i] = links among the first j words of the query and the first i of the title.
    sums = np.zeros((len(links), height + 1, width + 1), dtype=np.int32)
    np.cumsum(np.cumsum(links, axis=1, dtype=np.int32), axis=2, out=sums[:, 1:, 1:])
    query_ends = (block.queries >= 0).sum(axis=1)[:, None]
    title_ends = (block.titles >= 0).sum(axis=1)[:, None]
    for query_words in range(1, min(longest, height) + 1):
        band = sums[:, query_words:] - sums[:, :-query_words]  # links of the query's phrase
        query_inside = np.arange(query_words, height + 1) <= query_ends
        for title_words in range(1, min(longest, width) + 1):
            inside = band[:, :, title_words:] - band[:, :, :-title_words]
            of_title = sums[:, -1:, title_words:] - sums[:, -1:, :-title_words]
            title_inside = np.arange(title_words, width + 1) <= title_ends
            consistent = (inside > 0) & (inside == band[:, :, -1:]) & (inside == of_title)
            consistent &= query_inside[:, :, None] & title_inside[:, None, :]
            row, first_in_query, first_in_title = np.nonzero(consistent)
            yield query_words, title_words, row, first_in_query, first_in_title


def phrase_keys(ids: Ids, starts: Ids, words: int, size: int) -> Ids:
    """One number per phrase: its ids as digits, each raised by one, so that lengths differ too.

    Args:
        ids: words in a row.
        starts: index in `ids` of the first word of each phrase.
        words: number of words of each phrase, at most three.
        size: size of the vocabulary.

    Raises:
        ValueError: the vocabulary is too large for the numbers.
    """
    if size > _LARGEST_VOCABULARY:
        raise ValueError(
            f"the log has {size} words; phrases are numbered for at most {_LARGEST_VOCABULARY}."
        )
    keys = np.zeros(len(starts), dtype=np.int64)
    for offset in range(words):
        keys = keys * (size + 1) + ids[starts + offset] + 1
    return keys


def extract(
    queries: Tokens,
    titles: Tokens,
    clicks: NDArray[np.float64],
    to_query: sparse.csr_matrix,
    to_title: sparse.csr_matrix,
    longest: int,
) -> tuple[Ids, Ids, sparse.csr_matrix]:
    """Aligns clicked pairs, extracts their bi-phrases and counts them.

    `P(q | w)` is the clicks on pairs with the bi-phrase `(q, w)`, each occurrence counted, over the
    clicks on pairs with any bi-phrase `(., w)`.

    Args:
        queries: one per pair, all words known.
        titles: one per pair, all words known.
        clicks: `(pairs,)`.
        to_query: `P(query word | title word)`, `(words, words)`.
        to_title: `P(title word | query word)`, `(words, words)`.
        longest: words of a phrase at most, up to three.

    Returns:
        The phrases of titles and of queries, see `phrase_keys`, sorted, and the table of relative
        frequencies `(title phrases, query phrases)`; its rows sum to one.

    Reference: Gao, He and Nie 2010, the phrase translation model.
    """
    query_side, title_side, weights = [], [], []
    for block in pair_blocks(queries, titles):
        links = align(block, to_query, to_title)
        for query_words, title_words, row, j, i in consistent_phrases(links, block, longest):
            pair = block.pairs[row]
            query_start, title_start = queries.starts[pair] + j, titles.starts[pair] + i
            query_side.append(phrase_keys(queries.ids, query_start, query_words, queries.size))
            title_side.append(phrase_keys(titles.ids, title_start, title_words, titles.size))
            weights.append(clicks[pair])
    (query_keys, query), (title_keys, title) = (
        np.unique(np.concatenate(side), return_inverse=True) for side in (query_side, title_side)
    )
    counts = sparse.coo_matrix(
        (np.concatenate(weights), (title, query)), shape=(len(title_keys), len(query_keys))
    ).tocsr()
    counts.sort_indices()
    totals = counts @ np.ones(len(query_keys))
    counts.data /= np.repeat(totals, np.diff(counts.indptr))
    return title_keys, query_keys, counts
