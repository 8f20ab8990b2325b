"""Scores of raw texts while a model is trained: without the prior, by the current weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dssm_tf.model.siamese import Siamese
from dssm_tf.runtime.hashed_words import CACHED_WORDS
from dssm_tf.runtime.maxsim import TITLE, InvertedIndex, MaxSim, TitlePostings
from dssm_tf.runtime.text_vectors import TextVectors
from dssm_tf.scores.maxsim import SCALAR_RATE
from dssm_tf.scores.maxsim import MaxSim as MaxSimLayer
from dssm_tf.text.document_frequencies import DocumentFrequencies
from dssm_tf.text.vocabulary import Vocabulary

Matrix = NDArray[np.float32]

_CACHED_VALIDATION_WORDS = 500  # a small cache, because validation queries repeat few words


class TextScores(Protocol):
    """The scores of some queries and titles, computed on demand."""

    def scores(self, rows: slice) -> Matrix:
        """Scores float32 `(queries, titles)` of some of the queries."""
        ...


class TextScorer(Protocol):
    """A model that scores raw texts by its current weights."""

    def compare(self, queries: Sequence[str], titles: Sequence[str]) -> TextScores:
        """The scores of queries and titles, without the prior."""
        ...


class VectorScores(NamedTuple):
    """Unit vectors of queries `(queries, dimension)` and of titles `(titles, dimension)`."""

    queries: Matrix
    titles: Matrix

    def scores(self, rows: slice) -> Matrix:
        """Cosines float32 `(queries, titles)` of some of the queries."""
        return self.queries[rows] @ self.titles.T


@dataclass(frozen=True)
class IndexScores:
    """Queries, each as a list of words, and an index of the titles."""

    queries: Sequence[Sequence[str]]
    index: InvertedIndex

    def scores(self, rows: slice) -> Matrix:
        """Scores float32 `(queries, titles)` of some of the queries."""
        return self.index.score_matrix(self.queries[rows])


class WordScorer:
    """Scores texts by the score `maxsim`, in NumPy, by the current weights of a Keras model.

    Args:
        model: a `Siamese` with the score `maxsim`.
        vocabulary: the vocabulary that it is trained with.
        frequencies: document frequencies of the training data.
    """

    def __init__(
        self, model: Siamese, vocabulary: Vocabulary, frequencies: DocumentFrequencies
    ) -> None:
        self.model = model
        self.vocabulary = vocabulary
        self.frequencies = frequencies
        self._titles: tuple[str, ...] = ()
        self._postings: TitlePostings | None = None

    def compare(self, queries: Sequence[str], titles: Sequence[str]) -> IndexScores:
        """See `TextScorer`.

        The postings of the last titles are cached, because each epoch is validated on the same
        titles.
        """
        words = self.vocabulary.words
        if self._postings is None or tuple(titles) != self._titles:
            self._titles = tuple(titles)
            self._postings = TitlePostings.from_titles([*map(words, titles)], self.frequencies)
        index = InvertedIndex(self.maxsim(), self._postings)
        return IndexScores([*map(words, queries)], index)

    def maxsim(self) -> MaxSim:
        """The model in NumPy, with its current weights."""
        return numpy_maxsim(self.model, self.vocabulary, self.frequencies, _CACHED_VALIDATION_WORDS)


def numpy_maxsim(
    model: Siamese,
    vocabulary: Vocabulary,
    frequencies: DocumentFrequencies,
    cached_words: int = CACHED_WORDS,
) -> MaxSim:
    """The NumPy form of a Keras model with the score `maxsim`.

    Args:
        model: the Keras model.
        vocabulary: the vocabulary that it is trained with.
        frequencies: document frequencies of the training data.
        cached_words: see `dssm_tf.runtime.maxsim.MaxSim`.

    Raises:
        ValueError: the model has another score.
    """
    score = model.score
    if not isinstance(score, MaxSimLayer):
        raise ValueError(f"Received a model with the score {type(score).__name__}, not MaxSim.")
    side_weights = SCALAR_RATE * score.side_weights.numpy()
    if score.sides == "query":
        side_weights[TITLE] = 0
    text_vectors = None
    if score.text_cosine:
        text_vectors = TextVectors(
            vocabulary,
            frequencies,
            score.text_hashing.kernel.numpy(),
            score.text_importance.numpy(),
            score.text_cosine,
            cached_words,
        )
    return MaxSim(
        vocabulary,
        frequencies,
        model.query_tower.hashing.kernel.numpy(),
        score.importance.numpy(),
        side_weights,
        SCALAR_RATE * score.pair_bias.numpy(),
        score.threshold,
        text_vectors,
        cached_words,
    )
