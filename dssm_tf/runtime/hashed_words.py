"""Vectors and weights of words, from rows of their ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf.runtime.vector_ranker import normalize_vectors
from dssm_tf.runtime.word_vectors import WordVectors
from dssm_tf.text.document_frequencies import DocumentFrequencies
from dssm_tf.text.vocabulary import Vocabulary

IDF_DIVISOR = 5.0
"""A word's idf is divided by this number in its weight."""

CACHED_WORDS = 50_000
"""Number of words whose vectors are cached."""

Floats = NDArray[np.floating[Any]]


class WordFeatures(NamedTuple):
    """Unit vectors of words, `(words, dimension)`, and their weights, `(words, 2)`.

    Column `QUERY` of the weights is for words of a query, column `TITLE` for those of a title.
    """

    vectors: Floats
    weights: Floats


class HashedWords:
    """Computes the vector of a word and its two weights; `dssm_tf.runtime.maxsim` defines both.

    It caches the vectors of words; several threads may use it.

    Args:
        vocabulary: letter n-grams and their ids.
        frequencies: document frequencies of words in the training data.
        kernel: `(1 + ids, dimension)`, rows by id; row 0 is not read.
        importance: `(1 + ids, 2)`, the importance of each id in queries and in titles.
        cached_words: number of words whose vectors are cached.

    Attributes:
        rows: float32 `(1 + ids, dimension + 3)`: kernel, importance and 1 of each id; row 0 is 0.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        frequencies: DocumentFrequencies,
        kernel: Floats,
        importance: Floats,
        cached_words: int = CACHED_WORDS,
    ) -> None:
        self.vocabulary = vocabulary
        self.frequencies = frequencies
        self.dimension = kernel.shape[1]
        # In a sum of rows, the last column is the number of the ids.
        self.rows = np.concatenate(
            [kernel, importance, np.ones((len(kernel), 1))], axis=1, dtype=np.float32
        )
        self.rows[0] = 0
        self.cached_words = cached_words
        self._sums = WordVectors(vocabulary, self.rows, np.zeros(1, np.float32), cached_words)

    @property
    def kernel(self) -> Floats:
        """The rows of the ids, float32 `(1 + ids, dimension)`; row 0 is 0."""
        return self.rows[:, : self.dimension]

    @property
    def importance(self) -> Floats:
        """The importance of each id in queries and in titles, float32 `(1 + ids, 2)`."""
        return self.rows[:, self.dimension : -1]

    def words(self, words: Sequence[str]) -> WordFeatures:
        """Vectors and weights of words, float32.

        Args:
            words: words as `Vocabulary.words` returns them.
        """
        size = self.cached_words
        sums = np.empty((len(words), self.rows.shape[1]), np.float32)
        for start in range(0, len(words), size):
            sums[start : start + size] = self._sums(words[start : start + size])
        return self._features(words, sums)

    def exact_words(self, words: Sequence[str]) -> WordFeatures:
        """Vectors and weights of a few words, float64."""
        ids = [np.array(self.vocabulary.look_up(word), np.intp) for word in words]
        sums = [self.rows[rows].sum(axis=0, dtype=np.float64) for rows in ids]
        return self._features(words, np.array(sums).reshape(len(words), self.rows.shape[1]))

    def _features(self, words: Sequence[str], sums: Floats) -> WordFeatures:
        """Vectors and weights of words from the sums of their rows, in the precision of the sums.

        Args:
            words: the words.
            sums: `(words, dimension + 3)`, sums of rows of kernel and importance, and their number.
        """
        vectors, counts = sums[:, : self.dimension], sums[:, -1:]
        idf = np.array(list(map(self.frequencies.word_idf, words)), sums.dtype)
        means = sums[:, self.dimension : -1] / np.maximum(counts, 1)
        return WordFeatures(
            normalize_vectors(vectors), softplus(idf[:, None] / IDF_DIVISOR + means)
        )


def softplus(x: Floats | float) -> Floats:
    """ln(1 + e^x), without overflow."""
    return np.logaddexp(x, 0)
