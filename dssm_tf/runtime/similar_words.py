"""The catalog words that are similar to a word of a query, most similar first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dssm_tf.runtime.maxsim import Floats, MaxSim
from dssm_tf.runtime.trained_ranker import Vectors

SIMILAR_WORDS = 16
"""The number of similar words of a query word, if not set otherwise."""

Rows = NDArray[np.intp]

_CACHED = 50_000  # query words whose similar words are cached
_BLOCK = 64  # words that `of_each` compares at once with all words of the catalog
_ROUNDING = 1e-5  # of a cosine in float32


def _rows_near(cosines: Floats, cosine: float, limit: int | None) -> Rows:
    """Rows of cosines above `cosine`, or of the `limit` largest; see `SimilarWords.rows_near`."""
    rows: Rows = np.flatnonzero(cosines > cosine - _ROUNDING)
    if limit is None or len(rows) <= limit:
        return rows
    cosines = cosines[rows]
    lowest = np.partition(cosines, len(rows) - limit)[len(rows) - limit]
    return rows[cosines >= lowest - 2 * _ROUNDING]


class SimilarWords:
    """Similar catalog words of any word, for everything that expands a query.

    The similarity is that of `dssm_tf.runtime.maxsim`, or of a rule by hand. It is computed in
    float64, so it depends neither on the other words nor on the number of threads. Several threads
    may use one object.

    Args:
        model: the trained model.
        words: the distinct words of the catalog.
        limit: the number of similar words of each word; None for all.
        vectors: unit vectors of `words`, `(words, dimension)`; computed if None.
        near: returns a superset of the rows to find, see `rows_near`, which is the default.

    Attributes:
        limit: see above.
    """

    def __init__(
        self,
        model: MaxSim,
        words: Sequence[str],
        limit: int | None = SIMILAR_WORDS,
        vectors: Vectors | None = None,
        near: Callable[[Vectors, float, int | None], Rows] | None = None,
    ) -> None:
        self._model = model
        self._row_of = {word: row for row, word in enumerate(words)}
        self._vectors = model.words(words).vectors if vectors is None else vectors
        self.limit = limit
        self._near = near or self.rows_near
        self._cached = lru_cache(_CACHED)(self._compute)

    def of(self, word: str) -> tuple[Rows, Vectors]:
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
        return self._cached(word)

    def of_vector(self, word: str, vector: Vectors) -> tuple[Rows, Vectors]:
        """The same as `of`, without a cache, if the vector of the word is known.

        Args:
            word: the word.
            vector: its vector, `(dimension,)`.
        """
        set_rows, set_similarities = self._model.set_similarities(word, self._row_of)
        limit = None if self.limit is None else self.limit + len(set_rows)
        rows, similarities = self._learned(word, vector, limit)
        if not len(set_rows):
            return rows, similarities
        by_model = ~np.isin(rows, set_rows)
        rows = np.append(rows[by_model][: self.limit], set_rows)
        similarities = np.append(similarities[by_model][: self.limit], set_similarities)
        itself = rows == self._row_of.get(word, -1)
        order = np.lexsort((rows, -similarities, ~itself))
        order = order[similarities[order] > 0]
        return rows[order], similarities[order]

    def _learned(self, word: str, vector: Vectors, limit: int | None) -> tuple[Rows, Vectors]:
        """The same as `of_vector` with another limit, without rules."""
        if not vector.any():
            return np.zeros(0, np.intp), np.zeros(0, np.float32)
        rows = self._near(vector, self._model.threshold, limit)
        # Unlike a matrix product, `einsum` sums each row alike, so equal vectors tie.
        near = self._vectors.take(rows, axis=0).astype(np.float64)
        exact = np.einsum("d,nd->n", vector.astype(np.float64), near)
        similarities = np.minimum(self._model.similarities(exact), 1)
        itself = rows == self._row_of.get(word, -1)
        similarities[itself] = 1
        rounded = similarities.astype(np.float32)
        order = np.lexsort((-rounded, ~itself))[:limit]  # stable, so ties are by row
        order = order[rounded[order] > 0]
        return rows[order], rounded[order]

    def rows_near(self, vector: Vectors, cosine: float, limit: int | None) -> Rows:
        """Rows of all words whose vectors have a cosine above `cosine`, or of the `limit` nearest.

        Args:
            vector: a unit vector, `(dimension,)`.
            cosine: the lowest cosine.
            limit: None for no limit.

        Returns:
            At least these rows, in ascending order; a few more if cosines differ by rounding only.
        """
        return _rows_near(self._vectors @ vector, cosine, limit)

    def of_each(self, words: Sequence[str]) -> Iterator[tuple[Rows, Vectors]]:
        """The results of `of` for many words, which are not cached; faster by matrix products."""
        for start in range(0, len(words), _BLOCK):
            block = words[start : start + _BLOCK]
            vectors = self._model.words(block).vectors
            for word, vector, cosines in zip(
                block, vectors, vectors @ self._vectors.T, strict=True
            ):
                search = copy(self)
                search._near = lambda _, *limits, cosines=cosines: _rows_near(cosines, *limits)
                yield search.of_vector(word, vector)

    def _compute(self, word: str) -> tuple[Rows, Vectors]:
        return self.of_vector(word, self._model.words([word]).vectors[0])
