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
_LARGEST_VOCABULARY = 2_000_000  # the key of three words fits into an int64


class PairBlock(NamedTuple):
    """A block of query-title pairs; texts are padded to the longest query and the longest title.

    Attributes:
        pairs: `(pairs,)`, indices of the pairs in the log.
        queries: `(pairs, J)`, ids of each query's words, -1 after the end.
        titles: `(pairs, I)`, ids of each title's words, -1 after the end.
    """

    pairs: Ids
    queries: Ids
    titles: Ids


def pair_blocks(queries: Tokens, titles: Tokens) -> Iterator[PairBlock]:
    """Yields all pairs in blocks of similar lengths; texts are truncated to 100 words."""
    order = np.lexsort([np.minimum(texts.lengths, _MAX_WORDS) for texts in (titles, queries)])
    for start in range(0, len(order), _BLOCK_PAIRS):
        pairs = order[start : start + _BLOCK_PAIRS]
        yield PairBlock(pairs, _pad(queries, pairs), _pad(titles, pairs))


def _pad(texts: Tokens, rows: Ids) -> Ids:
    width = min(texts.lengths[rows].max(), _MAX_WORDS)
    positions = texts.starts[rows][:, None] + np.arange(width)
    inside = positions < texts.starts[rows + 1][:, None]
    padded = np.full(positions.shape, -1)
    padded[inside] = texts.ids[positions[inside]]
    return padded


def align(block: PairBlock, to_query: sparse.csr_matrix, to_title: sparse.csr_matrix) -> Links:
    """The symmetrized word alignment of each pair: `(pairs, J, I)`.

    Each query word is linked to the title word with the highest probability of being translated
    into it, and each title word to a query word in the same way. A word has no link if all
    probabilities are 0. Among equal probabilities, the identical word is preferred, then the first
    one in the text. Equal probabilities are frequent in a small log, where many words occur in one
    title only. `symmetrize` joins the two directions.

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
    return symmetrize(_mark_best(forward, 2), _mark_best(backward, 1))


def _mark_best(probabilities: NDArray[np.float64], axis: int) -> Links:
    """Marks the maximum along an axis: the first of equal ones, and none if it is 0."""
    best = np.zeros(probabilities.shape, dtype=bool)
    first = np.expand_dims(probabilities.argmax(axis), axis)
    np.put_along_axis(best, first, np.take_along_axis(probabilities, first, axis) > 0, axis)
    return best


def symmetrize(query_links: Links, title_links: Links) -> Links:
    """Joins the alignments of the two directions by the heuristic grow-diag-final-and.

    1. Start from the links that are in both directions.
    2. Add links that are in one direction, in reading order. A link is added if it touches an added
       link, also diagonally, and its query word or its title word has no link yet. Repeat until no
       link is added.
    3. Add links that are in one direction, if neither their query word nor their title word has a
       link yet.

    Args:
        query_links: `(pairs, J, I)`, at most one link per query word.
        title_links: `(pairs, J, I)`, at most one link per title word.

    Reference: Och and Ney 2003, sec. 4.3; Koehn, Och and Marcu 2003, sec. 3.
    """
    both, either = query_links & title_links, query_links | title_links
    links = both.copy()
    # The order of cells matters, so they are visited one by one. Each step handles all pairs.
    cells = np.argwhere((either & ~both).any(axis=0)).tolist()

    def without_link(j: int, i: int) -> tuple[Links, Links]:
        # For each pair: whether query word j has no link yet, and whether title word i has none.
        return ~links[:, j].any(axis=1), ~links[:, :, i].any(axis=1)

    grown = True
    while grown:
        before = links.sum()
        for j, i in cells:
            near = links[:, max(j - 1, 0) : j + 2, max(i - 1, 0) : i + 2].any(axis=(1, 2))
            links[:, j, i] |= either[:, j, i] & near & np.logical_or(*without_link(j, i))
        grown = links.sum() > before
    for j, i in cells:
        links[:, j, i] |= either[:, j, i] & np.logical_and(*without_link(j, i))
    return links


class BiPhrases(NamedTuple):
    """The bi-phrases of a block with one combination of lengths.

    Attributes:
        query_words: number of words of the query phrases.
        title_words: number of words of the title phrases.
        row: row of the pair in the block, for each bi-phrase.
        query_start: position of the first word in the query, for each bi-phrase.
        title_start: position of the first word in the title, for each bi-phrase.
    """

    query_words: int
    title_words: int
    row: Ids
    query_start: Ids
    title_start: Ids


def consistent_phrases(links: Links, block: PairBlock, longest: int) -> Iterator[BiPhrases]:
    """Yields the bi-phrases of the pairs, with up to `longest` words per phrase.

    A phrase of the query and a phrase of the title are a bi-phrase if at least one link joins them,
    and no word of either phrase has a link to a word outside the other phrase. A phrase may begin
    or end with words that have no link.

    Yields:
        The bi-phrases of one combination of lengths after the other.

    Reference: Och, Tillmann and Ney 1999; Koehn, Och and Marcu 2003, sec. 2.
    """
    height, width = links.shape[1:]
    # sums[:, j, i] = links among the first j words of the query and the first i of the title.
    sums = np.zeros((len(links), height + 1, width + 1), dtype=np.int32)
    np.cumsum(np.cumsum(links, axis=1, dtype=np.int32), axis=2, out=sums[:, 1:, 1:])
    query_ends = (block.queries >= 0).sum(axis=1)[:, None]
    title_ends = (block.titles >= 0).sum(axis=1)[:, None]
    for query_words in range(1, min(longest, height) + 1):
        query_sums = sums[:, query_words:] - sums[:, :-query_words]  # links of the query's phrase
        query_inside = np.arange(query_words, height + 1) <= query_ends
        for title_words in range(1, min(longest, width) + 1):
            inside = query_sums[:, :, title_words:] - query_sums[:, :, :-title_words]
            title_sums = sums[:, -1:, title_words:] - sums[:, -1:, :-title_words]
            title_inside = np.arange(title_words, width + 1) <= title_ends
            consistent = (inside > 0) & (inside == query_sums[:, :, -1:]) & (inside == title_sums)
            consistent &= query_inside[:, :, None] & title_inside[:, None, :]
            yield BiPhrases(query_words, title_words, *np.nonzero(consistent))


def phrase_keys(ids: Ids, starts: Ids, word_count: int, size: int) -> Ids:
    """One number per phrase, in base `size + 1`: each digit is a word id plus one.

    No digit is 0, so phrases of different lengths have different numbers.

    Args:
        ids: ids of consecutive words.
        starts: index in `ids` of the first word of each phrase.
        word_count: number of words of each phrase, at most three.
        size: size of the vocabulary.

    Raises:
        ValueError: the vocabulary is too large for the numbers.
    """
    if size > _LARGEST_VOCABULARY:
        raise ValueError(
            f"the log has {size} words; phrases are numbered for at most {_LARGEST_VOCABULARY}."
        )
    keys = np.zeros(len(starts), dtype=np.int64)
    for offset in range(word_count):
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

    `P(q | w)` is the number of clicks on pairs with the bi-phrase `(q, w)`, divided by the number
    of clicks on pairs with any bi-phrase `(., w)`. A pair counts once per occurrence of the
    bi-phrase.

    Args:
        queries: one per pair, all words known.
        titles: one per pair, all words known.
        clicks: `(pairs,)`.
        to_query: `P(query word | title word)`, `(words, words)`.
        to_title: `P(title word | query word)`, `(words, words)`.
        longest: maximum number of words of a phrase, up to three.

    Returns:
        The title phrases and the query phrases, as sorted `phrase_keys`; and the probabilities
        `P(q | w)`, `(title phrases, query phrases)`, whose rows sum to one.

    Reference: Gao, He and Nie 2010, the phrase translation model.
    """
    query_side, title_side, weights = [], [], []
    for block in pair_blocks(queries, titles):
        links = align(block, to_query, to_title)
        for phrases in consistent_phrases(links, block, longest):
            pair = block.pairs[phrases.row]
            query_starts = queries.starts[pair] + phrases.query_start
            title_starts = titles.starts[pair] + phrases.title_start
            query_side.append(
                phrase_keys(queries.ids, query_starts, phrases.query_words, queries.size)
            )
            title_side.append(
                phrase_keys(titles.ids, title_starts, phrases.title_words, titles.size)
            )
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
