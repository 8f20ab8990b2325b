"""What a run, an export and a compact model have in common: texts to vectors, vectors to scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from dssm_tf.text.rules import Key
    from dssm_tf.text.vocabulary import Vocabulary

Vectors = NDArray[np.float32]
Side = Literal["query", "title"]


SETTING_NAMES = ("name", "prior_weight", "mean_prior", "bm25_weight", "cutoff")
"""The attributes of a `VectorRanker` that its files hold by name."""


class RankedTitle(NamedTuple):
    """A title, its score, and its place in what was asked."""

    title: str
    score: float
    position: int


class VectorRanker(ABC):
    """A trained model that takes raw strings; `dssm_tf.load` gives one.

    A run, an export and a compact model give the same answers, to the rounding of float32. Texts
    may be anything: an empty one, or one without a known letter, is no error. Lists are lists,
    tuples, NumPy arrays or columns of strings; a text that is no string is a TypeError.

    Attributes:
        name: what tables call it.
        vocabulary: its letter trigrams and text rules.
        prior_weight: of the log share of a title's clicks.
        mean_prior: the mean of `weighted_prior` over the titles that were clicked.
        bm25_weight: of BM25 beside the model, see `dssm_tf.evaluation.fusion`.
        cutoff: a search found nothing good if all cosines are lower and no title holds all words
            of the query; -1 if training had too few validation queries to choose one.
    """

    name: str
    vocabulary: Vocabulary
    prior_weight: float
    mean_prior: float
    bm25_weight: float
    cutoff: float

    @abstractmethod
    def _encode(self, side: Side, texts: Sequence[str]) -> Vectors:
        """Unit vectors `(len(texts), dimension)`, as they were trained."""

    @abstractmethod
    def _weighted_priors(self, titles: Sequence[Key]) -> Vectors:
        """The weighted log-priors of titles in their normal form, `(len(titles),)`."""

    def rank(self, query: str, titles: Iterable[str]) -> list[RankedTitle]:
        """Titles from best to worst.

        Args:
            query: raw text.
            titles: raw texts.

        Returns:
            `(title, score, position)` of each, where `titles[position]` is the title. Equal
            scores keep the order of `titles`.
        """
        listed = texts_of("titles", titles)
        scores = self.score(query, listed)
        best = np.argsort(-scores, kind="stable").tolist()
        return [RankedTitle(listed[row], float(scores[row]), row) for row in best]

    def score(self, query: str, titles: Iterable[str]) -> Vectors:
        """What titles are ranked by: the cosine of the two vectors, plus the title's prior.

        The prior is a weight, chosen in training, times the log of the title's share of all
        clicks. Scores are comparable within a query.

        Args:
            query: raw text.
            titles: raw texts, in any order; repeats allowed, and equal titles have equal scores.

        Returns:
            Scores float32 `(len(titles),)`.
        """
        return self.score_matrix(texts_of("query", [query]), titles)[0]

    def score_matrix(self, queries: Iterable[str], titles: Iterable[str]) -> Vectors:
        """The score of every title for every query; each title is encoded once.

        Args:
            queries: raw texts.
            titles: raw texts. A run and an export remember the lists scored last, a compact model
                the words of texts.

        Returns:
            Scores float32 `(len(queries), len(titles))`.
        """
        vectors, priors, shared = self._encode_distinct(texts_of("titles", titles))
        return (self.encode_queries(queries) @ vectors.T + priors)[:, shared]

    def encode_queries(self, queries: Iterable[str], prior: bool = False) -> Vectors:
        """Semantic vectors of queries.

        Args:
            queries: raw texts.
            prior: False for unit vectors, whose inner product with a title's is the cosine; True
                for vectors with one more number, 1 for a query and the weighted log-prior for a
                title, whose inner product is the score: `[q, 1] . [t, p] = q . t + p`.

        Returns:
            float32 `(len(queries), dimension)`, or `(len(queries), dimension + 1)` with `prior`.
            Of a text without a known letter the first `dimension` numbers are zero.
        """
        vectors = self._encode("query", texts_of("queries", queries))
        return np.column_stack([vectors, np.ones(len(vectors), "f4")]) if prior else vectors

    def encode_titles(self, titles: Iterable[str], prior: bool = False) -> Vectors:
        """Semantic vectors of titles, to be indexed; see `encode_queries`."""
        titles = texts_of("titles", titles)
        vectors = self._encode("title", titles)
        return np.column_stack([vectors, self.weighted_prior(titles)]) if prior else vectors

    def weighted_prior(self, titles: Iterable[str]) -> Vectors:
        """What titles score whatever the query, `(len(titles),)`."""
        return self._weighted_priors([self.vocabulary.rules.key(title) for title in titles])

    def _encode_distinct(self, titles: Sequence[str]) -> tuple[Vectors, Vectors, NDArray[np.intp]]:
        """Vectors and priors of the distinct titles, and the place of each title among them.

        A matrix product can differ in the last bit from column to column, so titles that the
        model cannot tell apart share one column, and tie.
        """
        distinct, shared = self.vocabulary.rules.distinct(titles)
        return self._encode("title", distinct), self._weighted_priors(distinct), shared


def unit(vectors: Vectors) -> Vectors:
    """Vectors of length 1; those of zero stay, as in `normalize_vectors` of the Keras model."""
    squares = np.einsum("nd,nd->n", vectors, vectors)
    return vectors / np.sqrt(np.maximum(squares, 1e-12))[:, None]


def texts_of(name: str, texts: Iterable[Any]) -> Sequence[str]:
    """Texts as the models take them; a tuple stays the one it is, by which they know it again."""
    if isinstance(texts, (str, bytes)):
        raise TypeError(f"{name} is one {type(texts).__name__}; expected a list of str.")
    listed = texts if isinstance(texts, tuple) else list(texts)
    for row, text in enumerate(listed):
        if not isinstance(text, str):
            raise TypeError(f"{name}[{row}] is {text!r:.60}; expected str.")
    return listed
