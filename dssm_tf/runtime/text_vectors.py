"""Vectors of texts: weighted sums of the second vectors of their words, scaled to length 1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dssm_tf.runtime.hashed_words import CACHED_WORDS, Floats, HashedWords
from dssm_tf.runtime.vector_ranker import normalize_vectors
from dssm_tf.text.document_frequencies import DocumentFrequencies
from dssm_tf.text.vocabulary import Vocabulary

SHORTEST = 1e-6
"""Sums of vectors are divided by their length, or by this number if they are shorter."""


class TextVectors(HashedWords):
    """Computes the vectors of texts whose cosine is a part of the score maxsim.

    `dssm_tf.runtime.maxsim` defines them. Several threads may use one object.

    Args:
        vocabulary: letter n-grams and their ids.
        frequencies: document frequencies of words in the training data.
        kernel: `(1 + ids, dimension)`, a second row for each id; row 0 is not read.
        importance: `(1 + ids, 2)`, the importance of each id in vectors of queries and of titles.
        factor: the factor of the cosine in the score, `text_cosine`.
        cached_words: number of words whose vectors are cached.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        frequencies: DocumentFrequencies,
        kernel: Floats,
        importance: Floats,
        factor: float,
        cached_words: int = CACHED_WORDS,
    ) -> None:
        super().__init__(vocabulary, frequencies, kernel, importance, cached_words)
        self.factor = factor

    def weighted_words(self, words: Sequence[str], side: int) -> Floats:
        """The second vectors of words times their weights, float32 `(words, dimension)`.

        Args:
            words: words as `Vocabulary.words` returns them.
            side: `QUERY` or `TITLE`.
        """
        vectors, weights = self.words(words)
        vectors *= weights[:, side, None]
        return vectors

    def scales(self, sums: Floats) -> Floats:
        """The factors that turn sums of weighted words into text vectors times `factor`.

        Args:
            sums: `(texts, dimension)`, float32.

        Returns:
            float32 `(texts,)`.
        """
        lengths = np.sqrt(np.einsum("td,td->t", sums, sums))
        return (self.factor / np.maximum(lengths, SHORTEST)).astype(np.float32)

    def of_text(self, words: Sequence[str], side: int) -> Floats:
        """The unit vector of a text, float32 `(dimension,)`; 0 if none of its words has an id.

        Args:
            words: the words of the text.
            side: `QUERY` or `TITLE`.
        """
        return unit_sum(self.weighted_words([*dict.fromkeys(words)], side))

    def word_parts(self, query: Sequence[str], title: Sequence[str]) -> Floats:
        """The part of `factor` times the cosine that each word of a query adds, float64 `(words,)`.

        Args:
            query: the distinct words of the query.
            title: the distinct words of the title.
        """
        query_words, title_words = (
            vectors * weights[:, side, None]
            for side, (vectors, weights) in enumerate(map(self.exact_words, (query, title)))
        )
        length = max(float(np.linalg.norm(query_words.sum(axis=0))), SHORTEST)
        return self.factor / length * (query_words @ unit_sum(title_words))


def unit_sum(vectors: Floats) -> Floats:
    """The sum of vectors `(vectors, dimension)`, scaled to length 1; a zero sum stays zero."""
    unit: Floats = normalize_vectors(vectors.sum(axis=0, keepdims=True))[0]
    return unit
