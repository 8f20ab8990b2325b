"""Queries as the compiled functions of `MaxSimIndex` read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf.retrieval.index_arrays import Arrays
from dssm_tf.runtime.maxsim import QUERY, MaxSim
from dssm_tf.runtime.similar_words import SimilarWords
from dssm_tf.runtime.text_vectors import unit_sum

_CACHED = 50_000  # words and pairs of queries
_NO_ROWS = np.zeros(0, np.int64)
_NO_NUMBERS = np.zeros(0, np.float32)


class _QueryWord(NamedTuple):
    """A word of a query: its vector and weight, and the rows of similar words of titles.

    `rule_rows` and `rule_similarities` come from rules by hand, see `MaxSim.rule_similarities`.
    `text_vector` is the word's second vector times its weight in queries, see `TextVectors`.
    """

    vector: NDArray[np.float32]
    weight: float
    rows: NDArray[np.int32]
    similarities: NDArray[np.float32]
    rule_rows: NDArray[np.intp]
    rule_similarities: NDArray[np.float32]
    text_vector: NDArray[np.float32]


class PreparedQuery(NamedTuple):
    """A query as the compiled functions read it; see `maxsim_kernels.exact_scores`.

    Attributes:
        ends: `(query words,)`, the end of each query word's entries in `rows`.
        rows: rows of the similar words of each query word.
        similarities: their similarities.
        vectors: `(query words, dimension)`.
        weights: `(query words,)`, the contribution of each word if it matches fully.
        pairs: rows of the pairs that both the query and some title have.
        pair_weights: the contribution of each pair on the query side.
        rule_ends: `(query words,)`, the end of each query word's entries in `rule_rows`.
        rule_rows: rows of the words whose similarity a rule sets.
        rule_similarities: their similarities.
        text_vector: `(dimension of texts,)`, the unit vector of the query.
    """

    ends: NDArray[np.int64]
    rows: NDArray[np.int32]
    similarities: NDArray[np.float32]
    vectors: NDArray[np.float32]
    weights: NDArray[np.float64]
    pairs: NDArray[np.int64]
    pair_weights: NDArray[np.float64]
    rule_ends: NDArray[np.int64]
    rule_rows: NDArray[np.int64]
    rule_similarities: NDArray[np.float32]
    text_vector: NDArray[np.float32]


class QueryPreparer:
    """Prepares queries for the compiled functions, with a cache of their words and pairs.

    Args:
        model: the model that scores the titles.
        row_of: the row of each word of the titles.
        arrays: the arrays of the index.
        similar_words: finds the similar words of words that no title has.
        kernels: the module `maxsim_kernels`.
    """

    def __init__(
        self,
        model: MaxSim,
        row_of: Mapping[str, int],
        arrays: Arrays,
        similar_words: SimilarWords,
        kernels: Any,
    ) -> None:
        self._model, self._kernels = model, kernels
        self._row_of = row_of
        self._arrays = arrays
        self._similar_words = similar_words
        self._similar_counts = np.count_nonzero(arrays.similarities, axis=1)
        self._word = lru_cache(_CACHED)(self._compute_word)
        self._pair = lru_cache(_CACHED)(self._compute_pair)

    def prepare(self, query: Sequence[str]) -> PreparedQuery | None:
        """Prepares a query; None if it is empty.

        Args:
            query: the words of the query, in order.
        """
        words = list(map(self._word, dict.fromkeys(query)))
        if not words:
            return None
        pairs = list(map(self._pair, self._model.frequencies.pairs_of(query)))
        total = sum(word.weight for word in words) + sum(weight for _, weight in pairs)
        scale = self._model.side_weights[QUERY] / total
        pairs_of_titles = [(row, weight * scale) for row, weight in pairs if row is not None]
        rule_ends = np.zeros(len(words), np.int64)
        rule_rows, rule_similarities = _NO_ROWS, _NO_NUMBERS
        if any(len(word.rule_rows) for word in words):  # few queries have a word with a rule
            rule_ends = np.cumsum([len(word.rule_rows) for word in words])
            rule_rows = np.concatenate([word.rule_rows for word in words])
            rule_similarities = np.concatenate([word.rule_similarities for word in words])
        return PreparedQuery(
            np.array([*accumulate(len(word.rows) for word in words)], np.int64),
            np.concatenate([word.rows for word in words]),
            np.concatenate([word.similarities for word in words]),
            np.array([word.vector for word in words]),
            np.array([word.weight * scale for word in words]),
            np.array([row for row, _ in pairs_of_titles], np.int64),
            np.array([weight for _, weight in pairs_of_titles], np.float64),
            rule_ends,
            rule_rows,
            rule_similarities,
            unit_sum(np.array([word.text_vector for word in words])),
        )

    def similar_words(self, word: str) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Rows and similarities of the similar words of a query word, most similar first."""
        query_word = self._word(word)
        return query_word.rows, query_word.similarities

    def _compute_word(self, word: str) -> _QueryWord:
        """Looks up a word of a query, or computes its vector and similar words."""
        arrays, row = self._arrays, self._row_of.get(word)
        set_by_rules = self._model.rule_similarities(word, self._row_of)
        if row is not None and arrays.similarities.shape[1] and not len(set_by_rules[0]):
            count = self._similar_counts[row]
            return _QueryWord(
                arrays.vectors[row],
                float(arrays.query_weights[row]),
                arrays.similar_rows[row, :count],
                arrays.similarities[row, :count],
                *set_by_rules,
                self._text_vector(word),
            )
        model = self._model
        ids = np.array(model.vocabulary.look_up(word), np.int64)
        vector, mean = self._kernels.word_features(model.rows, ids, model.dimension, QUERY)
        rows, similarities = self._similar_words.of_vector(word, vector)
        return _QueryWord(
            vector,
            model.query_weight(word, mean),
            rows.astype(np.int32, copy=False),
            similarities,
            *set_by_rules,
            self._text_vector(word),
        )

    def _text_vector(self, word: str) -> NDArray[np.float32]:
        """The second vector of a query word times its weight; of length 0 without text vectors."""
        if (text_vectors := self._model.text_vectors) is None:
            return _NO_NUMBERS
        return text_vectors.weighted_words([word], QUERY)[0].astype(np.float32)

    def _compute_pair(self, pair: str) -> tuple[int | None, float]:
        """The row of a pair of a query, or None if no title has it; and the weight of the pair."""
        return self._pair_row(pair), self._model.pair_weight(pair, QUERY)

    def _pair_row(self, pair: str) -> int | None:
        """The row of a pair; None if no title has it."""
        keys = self._arrays.pair_keys
        first, second = (self._row_of.get(word) for word in pair.split(" "))
        if first is None or second is None:
            return None
        key = first * len(self._row_of) + second
        row = int(np.searchsorted(keys, key))
        return row if row < len(keys) and keys[row] == key else None
