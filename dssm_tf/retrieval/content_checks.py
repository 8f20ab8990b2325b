"""Compares a sample of the titles and words of an index with its arrays.

Checksums find damage. These checks also find files that do not belong together although their
checksums fit, such as the arrays of another corpus. They do not find a change of a title or a word
that is not in the sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.evaluation.ranking import tie_key
from dssm_tf.retrieval.clicked_titles import CLICKED_TITLES, ClickedTitles
from dssm_tf.retrieval.index_arrays import Arrays
from dssm_tf.runtime.maxsim import QUERY, TITLE
from dssm_tf.runtime.maxsim_ranker import MaxSimRanker
from dssm_tf.runtime.search_rules import NO_RULES
from dssm_tf.runtime.similar_words import SimilarWords
from dssm_tf.runtime.text_vectors import SHORTEST
from dssm_tf.text.rules import Key

SAMPLE = 256
"""The number of titles and of words in a sample."""

_COMPARED_WORDS = 8  # words that are compared with all words
_ROUNDING = 1e-3  # largest difference of a number; CPUs differ by less


def sample_rows(size: int, limit: int = SAMPLE) -> list[int]:
    """At most `limit` of `size` rows at equal distances, with the first and the last one.

    >>> sample_rows(9, 3), sample_rows(2, 3), sample_rows(0)
    ([0, 4, 8], [0, 1], [])
    """
    rows: list[int] = np.linspace(0, size - 1, min(size, limit)).astype(np.int64).tolist()
    return rows


def content_problem(
    model: MaxSimRanker,
    titles: Any,
    words: Sequence[str],
    arrays: Arrays,
    clicked: ClickedTitles | None,
) -> tuple[str, str] | None:
    """Finds an array of an index that does not fit the index's texts and model.

    Args:
        model: the model of the index.
        titles: the column `title` of its entries.
        words: the words of the titles, by row.
        arrays: the arrays, with numbers within their ranges.
        clicked: the titles with remembered clicks, if there are some.

    Returns:
        The name of the array and its problem; None if the sample of all arrays fits.
    """
    problem = _title_problem(model, titles, words, arrays) or _word_problem(model, words, arrays)
    if problem is None and clicked is not None:
        rows = [row for row in sample_rows(len(clicked.positions)) if clicked.positions[row] >= 0]
        entries = arrays.docs[arrays.doc_starts[clicked.positions[rows]]].tolist()
        hashes = model.vocabulary.rules.ids(titles[entry].as_py() for entry in entries)
        if not np.array_equal(hashes, clicked.remembered_clicks.titles[rows]):
            return CLICKED_TITLES, "a position belongs to another title than the clicked one"
    return problem


def _title_problem(
    model: MaxSimRanker, titles: Any, words: Sequence[str], arrays: Arrays
) -> tuple[str, str] | None:
    """Finds an array of titles that does not fit; see `content_problem`."""
    vocabulary, rows = model.vocabulary, sample_rows(arrays.titles)
    keys: list[Key] = []
    for row in rows:
        entries = _items(row, arrays.doc_starts, arrays.docs)
        keys_of_entries = {
            vocabulary.rules.key(titles[entry].as_py()) for entry in (entries[0], entries[-1])
        }
        if len(keys_of_entries) != 1:
            return "docs", "the entries of a title have different words"
        keys += keys_of_entries
        title_words = vocabulary.words(keys[-1])
        word_rows = _items(row, arrays.title_starts, arrays.title_words)
        if {words[word] for word in word_rows} != {*title_words}:
            return "title_words", f"they are not the words of the title {keys[-1]!r:.80}"
        pair_rows = _items(row, arrays.title_pair_starts, arrays.title_pairs)
        pairs = {*_pair_names(words, arrays.pair_keys[pair_rows])}
        if pairs != {*model.maxsim.frequencies.pairs_of(title_words)}:
            return "title_pairs", f"they are not the pairs of the title {keys[-1]!r:.80}"
        total = arrays.word_weights[word_rows].sum(dtype=np.float64)
        total += sum(arrays.pair_weights[pair_rows])
        side_weight = float(arrays.inverse_totals[row]) * total
        if title_words and not _is_close(side_weight, model.maxsim.side_weights[TITLE]):
            return "inverse_totals", "a number differs from the model's"
        if title_words and (text_vectors := model.maxsim.text_vectors) is not None:
            length = float(np.linalg.norm(arrays.text_vectors[word_rows].sum(axis=0)))
            factor = float(arrays.text_scales[row]) * max(length, SHORTEST)
            if not _is_close(factor, text_vectors.factor):
                return "text_scales", "a number differs from the model's"
    if any(tie_key(key) >= tie_key(following) for key, following in pairwise(keys)):
        return "docs", "the titles are not in the order of their hashes"
    if not _is_close(arrays.priors[rows], model.weighted_prior(keys)):
        return "priors", "a number differs from the prior of its title"
    return None


def _word_problem(
    model: MaxSimRanker, words: Sequence[str], arrays: Arrays
) -> tuple[str, str] | None:
    """Finds an array of words or pairs that does not fit; see `content_problem`."""
    maxsim, rows = model.maxsim.with_rules(NO_RULES), sample_rows(len(words))
    features = maxsim.words([words[row] for row in rows])
    pair_rows = sample_rows(len(arrays.pair_keys))
    pairs = _pair_names(words, arrays.pair_keys[pair_rows])
    if not {*pairs} <= maxsim.frequencies.pairs.keys():
        return "pair_keys", "a pair is unknown to the model"
    for name, received, expected in (
        ("vectors", arrays.vectors[rows], features.vectors),
        ("query_weights", arrays.query_weights[rows], features.weights[:, QUERY]),
        ("word_weights", arrays.word_weights[rows], features.weights[:, TITLE]),
        ("pair_weights", arrays.pair_weights[pair_rows], maxsim.pair_weights(pairs)[:, TITLE]),
    ):
        if not _is_close(received, expected):
            return name, "a number differs from the model's"
    if maxsim.text_vectors is not None:
        weighted = maxsim.text_vectors.weighted_words([words[row] for row in rows], TITLE)
        if not _is_close(arrays.text_vectors[rows], weighted):
            return "text_vectors", "a number differs from the model's"
    width = arrays.similar_rows.shape[1]
    similar = SimilarWords(maxsim, words, width, arrays.vectors)
    for row in sample_rows(len(words), _COMPARED_WORDS) if width else []:
        vector = arrays.vectors[row]
        _, expected = similar.of_vector(words[row], vector)
        received = arrays.similarities[row]
        if not _is_close(received, np.pad(expected, (0, width - len(expected)))):
            return "similarities", f"they differ from the model's for the word {words[row]!r:.80}"
        similar_rows = arrays.similar_rows[row][received > 0]
        similarities = maxsim.similarities(arrays.vectors[similar_rows] @ vector)
        similarities[similar_rows == row] = 1
        if not _is_close(received[received > 0], similarities):
            return "similar_rows", f"they are not the words similar to {words[row]!r:.80}"
    return None


def _items(row: int, starts: NDArray[np.int64], items: NDArray[np.int32]) -> list[int]:
    """The items of one list of several, which follow each other."""
    of_row: list[int] = items[starts[row] : starts[row + 1]].tolist()
    return of_row


def _pair_names(words: Sequence[str], keys: NDArray[np.int64]) -> list[str]:
    """The pairs of some keys, see `Arrays.pair_keys`."""
    return [f"{words[key // len(words)]} {words[key % len(words)]}" for key in keys.tolist()]


def _is_close(received: Any, expected: Any) -> bool:
    return bool(np.allclose(received, expected, rtol=_ROUNDING, atol=_ROUNDING))
