"""Bi-phrases: pairs of short phrases that translate each other, cut out of word alignments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.baselines.tokens import Ids, Tokens

Links = NDArray[np.bool_]

_CELLS = 1 << 22  # of the padded alignments held at once
_WORDS = 100  # of a text that are aligned; queries and titles are shorter
_TIE = 1e-6  # more than the error of the probabilities, less than what tells words apart
_NEIGHBOURS = [(-1, 0), (1, 0), (0, -1), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]
_LARGEST_VOCABULARY = 2_000_000  # three ids and their length still fit into an int64


class PairBlock(NamedTuple):
    """Some pairs of texts, padded to the longest.

    Attributes:
        pairs: `(pairs,)` which ones.
        queries: `(pairs, J)` ids of the query's words, -1 behind the end.
        titles: `(pairs, I)` ids of the title's words, -1 behind the end.
    """

    pairs: Ids
    queries: Ids
    titles: Ids


def pair_blocks(queries: Tokens, titles: Tokens) -> Iterator[PairBlock]:
    """All pairs, those of like lengths together; texts are cut after 100 words."""
    query_lengths = np.minimum(queries.lengths, _WORDS)
    title_lengths = np.minimum(titles.lengths, _WORDS)
    order = np.lexsort((title_lengths, query_lengths))
    start = 0
    while start < len(order):
        rows = order[start:]
        # The block grows while its padded size is small; it is sorted by the query's length.
        cells = np.arange(1, len(rows) + 1) * query_lengths[rows]
        cells *= np.maximum.accumulate(title_lengths[rows])
        rows = rows[: max(1, int(np.searchsorted(cells, _CELLS, side="right")))]
        yield PairBlock(
            rows,
            _padded(queries, rows, int(query_lengths[rows].max())),
            _padded(titles, rows, int(title_lengths[rows].max())),
        )
        start += len(rows)


def _padded(texts: Tokens, rows: Ids, width: int) -> Ids:
    places = texts.starts[rows][:, None] + np.arange(width)
    inside = places < texts.starts[rows + 1][:, None]
    padded = np.full(places.shape, -1)
    padded[inside] = texts.ids[places[inside]]
    return padded


def align(block: PairBlock, to_query: sparse.csr_matrix, to_title: sparse.csr_matrix) -> Links:
    """The symmetrised word alignment of each pair: `(pairs, J, I)`.

    Each query word is linked to the title word that most likely gave it, and each title word to
    the query word that most likely gave it, where anything could. Of equally likely words the same
    word comes first, then the first in the text: words of one title that stand in no other are
    equally likely, and there are many in a small log. The two directions are joined by
    `symmetrise`.

    Args:
        block: the pairs.
        to_query: `P(query word | title word)`, `(words, words)`.
        to_title: `P(title word | query word)`, `(words, words)`.
    """
    queries, titles = block.queries[:, :, None], block.titles[:, None, :]
    shape = np.broadcast_shapes(queries.shape, titles.shape)
    query_ids = np.broadcast_to(queries, shape).ravel()
    title_ids = np.broadcast_to(titles, shape).ravel()
    inside = (query_ids >= 0) & (title_ids >= 0)
    tie_break = 1 + _TIE * (query_ids == title_ids)[inside]
    forward, backward = np.zeros(len(inside)), np.zeros(len(inside))
    forward[inside] = _look_up(to_query, title_ids[inside], query_ids[inside]) * tie_break
    backward[inside] = _look_up(to_title, query_ids[inside], title_ids[inside]) * tie_break
    return symmetrise(_best(forward.reshape(shape), 2), _best(backward.reshape(shape), 1))


def _look_up(table: sparse.csr_matrix, rows: Ids, columns: Ids) -> NDArray[np.float64]:
    return np.asarray(table[rows, columns]).ravel()


def _best(probabilities: NDArray[np.float64], axis: int) -> Links:
    """The first of the largest along the axis, if it is above 0."""
    best: Links = np.zeros(probabilities.shape, dtype=bool)
    first = np.expand_dims(probabilities.argmax(axis), axis)
    np.put_along_axis(best, first, np.take_along_axis(probabilities, first, axis) > 0, axis)
    return best


def symmetrise(query_links: Links, title_links: Links) -> Links:
    """Joins the alignments of the two directions: grow-diag-final-and.

    It starts from the links that both have. A link of either is added when it touches one that is
    there, diagonally too, and its query word or its title word has none yet; again, in reading
    order, until nothing changes. At last links of either are added whose two words both have none.

    Args:
        query_links: `(pairs, J, I)`, one link at most a query word.
        title_links: `(pairs, J, I)`, one link at most a title word.

    Reference: Och and Ney 2003, sec. 4.3; Koehn, Och and Marcu 2003, sec. 3.
    """
    both: Links = np.logical_and(query_links, title_links)
    either: Links = np.logical_or(query_links, title_links)
    links = both.copy()
    query_done, title_done = links.any(axis=2), links.any(axis=1)
    # One cell after the other, as the order decides who comes first; all pairs at once.
    cells = [(int(j), int(i)) for j, i in np.argwhere((either & ~both).any(axis=0))]
    height, width = links.shape[1:]

    def add(j: int, i: int, allowed: Links) -> bool:
        new = either[:, j, i] & ~links[:, j, i] & allowed
        links[:, j, i] |= new
        query_done[:, j] |= new
        title_done[:, i] |= new
        return bool(new.any())

    def touches(j: int, i: int) -> Links:
        found: Links = np.zeros(len(links), dtype=bool)
        for down, right in _NEIGHBOURS:
            if 0 <= j + down < height and 0 <= i + right < width:
                found |= links[:, j + down, i + right]
        return found

    grown = True
    while grown:
        grown = False
        for j, i in cells:
            free = ~query_done[:, j] | ~title_done[:, i]
            grown |= add(j, i, free & touches(j, i))
    for j, i in cells:
        add(j, i, ~query_done[:, j] & ~title_done[:, i])
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
            kept = (inside > 0) & (inside == band[:, :, -1:]) & (inside == of_title)
            kept &= query_inside[:, :, None] & title_inside[:, None, :]
            row, first_in_query, first_in_title = np.nonzero(kept)
            yield query_words, title_words, row, first_in_query, first_in_title


def phrase_keys(ids: Ids, starts: Ids, words: int, size: int) -> Ids:
    """One number a phrase: its ids as digits, each raised by one, so that lengths differ too.

    Args:
        ids: words in a row.
        starts: where each phrase begins.
        words: of each phrase, at most three.
        size: of the vocabulary.

    Raises:
        ValueError: the vocabulary is too large for the numbers.
    """
    if size > _LARGEST_VOCABULARY:
        raise ValueError(
            f"the log has {size} words; phrases are numbered for at most {_LARGEST_VOCABULARY}."
        )
    keys = np.zeros(len(starts), dtype=np.int64)
    for place in range(words):
        keys = keys * (size + 1) + ids[starts + place] + 1
    return keys


class BiPhrases(NamedTuple):
    """The phrase translation table.

    Attributes:
        title_keys: `(title phrases,)` see `phrase_keys`, sorted.
        query_keys: `(query phrases,)` see `phrase_keys`, sorted.
        table: `(title phrases, query phrases)` relative frequencies; rows sum to one.
    """

    title_keys: Ids
    query_keys: Ids
    table: sparse.csr_matrix


def extract(
    queries: Tokens,
    titles: Tokens,
    clicks: NDArray[np.float64],
    to_query: sparse.csr_matrix,
    to_title: sparse.csr_matrix,
    longest: int,
    pairs_done: Callable[[int], None] = lambda pairs: None,
) -> BiPhrases:
    """Aligns clicked pairs, cuts out their bi-phrases and counts them.

    `P(q | w)` is the clicks on pairs with the bi-phrase `(q, w)`, each place counted, over those
    with any bi-phrase `(., w)`.

    Args:
        queries: one a pair, all words known.
        titles: one a pair, all words known.
        clicks: `(pairs,)`.
        to_query: `P(query word | title word)`, `(words, words)`.
        to_title: `P(title word | query word)`, `(words, words)`.
        longest: words of a phrase at most, up to three.
        pairs_done: called with the number of pairs that are done.

    Reference: Gao, He and Nie 2010, the phrase translation model.
    """
    sides: tuple[list[Ids], list[Ids]] = ([], [])
    weights = []
    done = 0
    for block in pair_blocks(queries, titles):
        links = align(block, to_query, to_title)
        for query_words, title_words, row, j, i in consistent_phrases(links, block, longest):
            pair = block.pairs[row]
            for side, texts, first, length in (
                (sides[0], queries, j, query_words),
                (sides[1], titles, i, title_words),
            ):
                side.append(phrase_keys(texts.ids, texts.starts[pair] + first, length, texts.size))
            weights.append(clicks[pair])
        done += len(block.pairs)
        pairs_done(done)
    (query_keys, query), (title_keys, title) = (
        np.unique(np.concatenate(side), return_inverse=True) for side in sides
    )
    counts = sparse.coo_matrix(
        (np.concatenate(weights), (title, query)), shape=(len(title_keys), len(query_keys))
    ).tocsr()
    counts.sort_indices()
    totals = counts @ np.ones(len(query_keys))
    counts.data /= np.repeat(totals, np.diff(counts.indptr))
    return BiPhrases(title_keys, query_keys, counts)
