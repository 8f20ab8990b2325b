"""The catalog words that are similar to a word of a query, most similar first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from dssm_tf.runtime.hashed_words import Floats
from dssm_tf.runtime.maxsim import MaxSim
from dssm_tf.runtime.trained_ranker import Vectors

SIMILAR_WORDS = 16
"""The number of similar words of a query word, if not set otherwise."""

Rows = NDArray[np.intp]

_CACHED = 50_000  # query words whose similar words are cached
_BLOCK = 64  # words that `of_each` compares at once with all words of the catalog
_ROUNDING = 1e-5  # of a cosine in float32

FindNearest = Callable[[Vectors, float, int | None], tuple[Rows, Vectors]]
"""Finds the similar words of a vector, most similar first; equal ones in the order of their rows.

Args:
    vector: a unit vector, `(dimension,)`.
    threshold: cosines up to this value are similarity 0.
    limit: the number of words; None for all.

Returns:
    Rows and similarities above 0, float32. They are computed in float64, in which equal vectors
    have equal similarities.
"""


class SimilarWords:
    """Finds the similar catalog words of any word, for search indexes and search engines.

    The similarity is that of `dssm_tf.runtime.maxsim`, or of a rule by hand. It is computed in
    float64, so it depends neither on the other words nor on the number of threads. Several threads
    may use one object.

    Args:
        model: the trained model.
        words: the distinct words of the catalog.
        limit: the number of similar words of each word; None for all.
        vectors: unit vectors of `words`, `(words, dimension)`; computed if None.
        nearest: a faster way to compare a vector with all of `vectors`; NumPy if None.

    Attributes:
        limit: see above.
    """

    def __init__(
        self,
        model: MaxSim,
        words: Sequence[str],
        limit: int | None = SIMILAR_WORDS,
        vectors: Vectors | None = None,
        nearest: FindNearest | None = None,
    ) -> None:
        self._model = model
        self._row_of = {word: row for row, word in enumerate(words)}
        self._vectors = model.words(words).vectors if vectors is None else vectors
        self.limit = limit
        self._nearest = nearest or self._nearest_by_numpy
        self._cached_of = lru_cache(_CACHED)(self._compute)

    def of_word(self, word: str) -> tuple[Rows, Vectors]:
        """The similar words of a word, most similar first.

        A word of the catalog comes first in its own list, with similarity 1. Other words with equal
        similarities are in the order of their rows.

        Args:
            word: a word as `Vocabulary.words` returns it.

        Returns:
            Rows into `words` and similarities above 0, both of the same length; at most `limit`,
            and all words that rules make similar. Both are empty for a word without ids and rules.
            Do not change them: they are cached.
        """
        return self._cached_of(word)

    def of_vector(self, word: str, vector: Vectors) -> tuple[Rows, Vectors]:
        """The same as `of_word`, without a cache, if the vector of the word is known.

        Args:
            word: the word.
            vector: its vector, `(dimension,)`.
        """
        return self._similar(word, vector, self._nearest)

    def _similar(self, word: str, vector: Vectors, nearest: FindNearest) -> tuple[Rows, Vectors]:
        """The similar words of a word by its vector and by rules.

        Args:
            word: the word.
            vector: its vector, `(dimension,)`.
            nearest: finds the most similar words of a vector.
        """
        rule_rows, rule_similarities = self._model.rule_similarities(word, self._row_of)
        limit = None if self.limit is None else self.limit + len(rule_rows)
        rows, similarities = self._similar_by_vector(word, vector, nearest, limit)
        if not len(rule_rows):
            return rows, similarities
        has_no_rule = ~np.isin(rows, rule_rows)
        rows = np.append(rows[has_no_rule][: self.limit], rule_rows)
        similarities = np.append(similarities[has_no_rule][: self.limit], rule_similarities)
        is_word = rows == self._row_of.get(word, -1)
        order = np.lexsort((rows, -similarities, ~is_word))
        order = order[similarities[order] > 0]
        return rows[order], similarities[order]

    def _similar_by_vector(
        self, word: str, vector: Vectors, nearest: FindNearest, limit: int | None
    ) -> tuple[Rows, Vectors]:
        """The `limit` most similar words of a word, without rules; see `_similar`."""
        if not vector.any():
            return np.zeros(0, np.intp), np.zeros(0, np.float32)
        rows, similarities = nearest(vector, self._model.threshold, limit)
        row_of_word = self._row_of.get(word)
        if row_of_word is None:
            return rows, similarities
        is_other = rows != row_of_word
        return (
            np.append(row_of_word, rows[is_other])[:limit],
            np.append(np.float32(1), similarities[is_other])[:limit],
        )

    def _nearest_by_numpy(
        self, vector: Vectors, threshold: float, limit: int | None
    ) -> tuple[Rows, Vectors]:
        """See `FindNearest`."""
        return self._nearest_by_cosine(self._vectors @ vector, vector, threshold, limit)

    def _nearest_by_cosine(
        self, cosines: Floats, vector: Vectors, threshold: float, limit: int | None
    ) -> tuple[Rows, Vectors]:
        """See `FindNearest`.

        Args:
            cosines: `(words,)`, with rounding errors.
            vector: see `FindNearest`; so are the other arguments.
            threshold: see `vector`.
            limit: see `vector`.
        """
        rows = np.flatnonzero(cosines > threshold - _ROUNDING)
        if limit is not None and len(rows) > limit:
            candidates = cosines[rows]
            lowest = np.partition(candidates, len(rows) - limit)[len(rows) - limit]
            rows = rows[candidates >= lowest - 2 * _ROUNDING]
        # Unlike a matrix product, `einsum` sums each row alike, so equal vectors tie.
        vectors = self._vectors.take(rows, axis=0).astype(np.float64)
        exact = np.einsum("d,nd->n", vector.astype(np.float64), vectors)
        similarities = np.minimum(self._model.similarities(exact), 1).astype(np.float32)
        order = np.argsort(-similarities, kind="stable")[:limit]  # so ties are by row
        order = order[similarities[order] > 0]
        return rows[order], similarities[order]

    def of_each(self, words: Sequence[str]) -> Iterator[tuple[Rows, Vectors]]:
        """The results of `of_word` for many words: without a cache, faster by matrix products."""
        for start in range(0, len(words), _BLOCK):
            block = words[start : start + _BLOCK]
            vectors = self._model.words(block).vectors
            for word, vector, cosines in zip(
                block, vectors, vectors @ self._vectors.T, strict=True
            ):
                yield self._similar(word, vector, partial(self._nearest_by_cosine, cosines))

    def _compute(self, word: str) -> tuple[Rows, Vectors]:
        return self.of_vector(word, self._model.words([word]).vectors[0])
