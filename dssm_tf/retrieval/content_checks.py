"""Compares a sample of the titles and words of an index with its numbers.

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
from dssm_tf.retrieval.maxsim_files import Arrays
from dssm_tf.runtime.maxsim import QUERY, TITLE
from dssm_tf.runtime.maxsim_ranker import MaxSimRanker
from dssm_tf.runtime.search_rules import NO_RULES
from dssm_tf.runtime.similar_words import SimilarWords
from dssm_tf.text.rules import Key

SAMPLE = 256
"""The number of titles and of words in a sample."""

_COMPARED_WORDS = 8  # words that are compared with all words
_ROUNDING = 1e-3  # numbers differ less between CPUs


def sample_rows(size: int, most: int = SAMPLE) -> list[int]:
    """At most `most` of `size` rows at equal distances, with the first and the last one.

    >>> sample_rows(9, 3), sample_rows(2, 3), sample_rows(0)
    ([0, 4, 8], [0, 1], [])
    """
    rows: list[int] = np.linspace(0, size - 1, min(size, most)).astype(np.int64).tolist()
    return rows


def content_problem(
    model: MaxSimRanker,
    titles: Any,
    words: Sequence[str],
    arrays: Arrays,
    clicked: ClickedTitles | None,
) -> tuple[str, str] | None:
    """The name of an array of an index that is not that of its texts and model; None if all are.

    Args:
        model: the model of the index.
        titles: the column `title` of its entries.
        words: the words of the titles, by row.
        arrays: the numbers, each within its range.
        clicked: the titles with remembered clicks, if there are some.

    Returns:
        The name and the problem.
    """
    problem = _title_problem(model, titles, words, arrays) or _word_problem(model, words, arrays)
    if problem is None and clicked is not None:
        rows = [row for row in sample_rows(len(clicked.positions)) if clicked.positions[row] >= 0]
        entries = arrays.docs[arrays.doc_starts[clicked.positions[rows]]].tolist()
        hashes = model.vocabulary.rules.column(titles[entry].as_py() for entry in entries)
        if not np.array_equal(hashes, clicked.remembered.titles[rows]):
            return CLICKED_TITLES, "a position is not that of the clicked title"
    return problem


def _title_problem(
    model: MaxSimRanker, titles: Any, words: Sequence[str], arrays: Arrays
) -> tuple[str, str] | None:
    """The same as `content_problem`, for the arrays of titles."""
    vocabulary, rows = model.vocabulary, sample_rows(arrays.titles)

    def of_title(row: int, starts: NDArray[np.int64], items: NDArray[np.int32]) -> list[int]:
        numbers: list[int] = items[starts[row] : starts[row + 1]].tolist()
        return numbers

    keys: list[Key] = []
    for row in rows:
        entries = of_title(row, arrays.doc_starts, arrays.docs)
        ends = entries[0], entries[-1]
        own = {vocabulary.rules.key(titles[entry].as_py()) for entry in ends}
        if len(own) != 1:
            return "docs", "the entries of a title have different words"
        keys += own
        texts = vocabulary.words(keys[-1])
        listed = of_title(row, arrays.title_starts, arrays.title_words)
        if {words[word] for word in listed} != {*texts}:
            return "title_words", f"they are not the words of the title {keys[-1]!r:.80}"
        pairs = arrays.pair_keys[of_title(row, arrays.title_pair_starts, arrays.title_pairs)]
        named = {f"{words[key // len(words)]} {words[key % len(words)]}" for key in pairs.tolist()}
        if named != {*model.maxsim.frequencies.pairs_of(texts)}:
            return "title_pairs", f"they are not the pairs of the title {keys[-1]!r:.80}"
        total = arrays.word_weights[listed].sum(dtype=np.float64) + sum(
            arrays.pair_weights[of_title(row, arrays.title_pair_starts, arrays.title_pairs)]
        )
        weight = float(arrays.inverse_totals[row]) * total
        if texts and not _is_close(weight, model.maxsim.side_weights[TITLE]):
            return "inverse_totals", "a number is not that of the model"
    if any(tie_key(key) >= tie_key(following) for key, following in pairwise(keys)):
        return "docs", "the titles are not in the order of their hashes"
    if not _is_close(arrays.priors[rows], model.weighted_prior(keys)):
        return "priors", "a number is not the prior of its title"
    return None


def _word_problem(
    model: MaxSimRanker, words: Sequence[str], arrays: Arrays
) -> tuple[str, str] | None:
    """The same as `content_problem`, for the arrays of words and pairs."""
    maxsim, rows = model.maxsim.with_rules(NO_RULES), sample_rows(len(words))
    features = maxsim.words([words[row] for row in rows])
    pairs = sample_rows(len(arrays.pair_keys))
    names = [
        f"{words[key // len(words)]} {words[key % len(words)]}"
        for key in arrays.pair_keys[pairs].tolist()
    ]
    if not {*names} <= maxsim.frequencies.pairs.keys():
        return "pair_keys", "a pair is not one of the model"
    for name, received, expected in (
        ("vectors", arrays.vectors[rows], features.vectors),
        ("query_weights", arrays.query_weights[rows], features.weights[:, QUERY]),
        ("word_weights", arrays.word_weights[rows], features.weights[:, TITLE]),
        ("pair_weights", arrays.pair_weights[pairs], maxsim.pair_weights(names)[:, TITLE]),
    ):
        if not _is_close(received, expected):
            return name, "a number is not that of the model"
    width = arrays.similar_rows.shape[1]
    similar = SimilarWords(maxsim, words, width, arrays.vectors)
    for row in sample_rows(len(words), _COMPARED_WORDS) if width else []:
        vector = arrays.vectors[row]
        _, expected = similar.of_vector(words[row], vector)
        received = arrays.similarities[row]
        if not _is_close(received, np.pad(expected, (0, width - len(expected)))):
            return "similarities", f"they are not those of the word {words[row]!r:.80}"
        others = arrays.similar_rows[row][received > 0]
        similarities = maxsim.similarities(arrays.vectors[others] @ vector)
        similarities[others == row] = 1
        if not _is_close(received[received > 0], similarities):
            return "similar_rows", f"they are not the words similar to {words[row]!r:.80}"
    return None


def _is_close(received: Any, expected: Any) -> bool:
    return bool(np.allclose(received, expected, rtol=_ROUNDING, atol=_ROUNDING))
