"""The base class of runs, exports and compact models, which score texts by their vectors."""

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
"""The attributes of a `VectorRanker` that are saved in files under their names."""


class RankedTitle(NamedTuple):
    """A title, its score, and its index in the titles passed to `rank`."""

    title: str
    score: float
    position: int


class VectorRanker(ABC):
    """A trained model that scores raw strings; `dssm_tf.load` returns one.

    A run, an export and a compact model have the same scores up to float32 rounding. Any string is
    valid, also an empty one or one without a known letter. Several texts may be a list, a tuple, a
    NumPy array or a column of strings; an element that is not a string is a TypeError.

    Attributes:
        name: its name in tables.
        vocabulary: its letter n-grams and text rules.
        prior_weight: weight of the title's log-prior, the log of its fraction of all clicks.
        mean_prior: the mean of `weighted_prior` over the clicked titles.
        bm25_weight: weight of BM25 in hybrid search, see `dssm_tf.evaluation.fusion`.
        cutoff: a search has no good result if all cosines are below this value and no title
            contains all words of the query; -1 if training had too few validation queries.
    """

    name: str
    vocabulary: Vocabulary
    prior_weight: float
    mean_prior: float
    bm25_weight: float
    cutoff: float

    @abstractmethod
    def _encode(self, side: Side, texts: Sequence[str]) -> Vectors:
        """Unit vectors `(len(texts), dimension)`, without the prior."""

    @abstractmethod
    def _weighted_priors(self, titles: Sequence[Key]) -> Vectors:
        """The weighted log-priors of normalized titles, `(len(titles),)`."""

    def rank(self, query: str, titles: Iterable[str]) -> list[RankedTitle]:
        """Titles from best to worst.

        Args:
            query: raw text.
            titles: raw texts.

        Returns:
            For each title `(title, score, position)`, with `titles[position]` the title. Titles
            with equal scores keep their order.
        """
        title_list = texts_of("titles", titles)
        scores = self.score(query, title_list)
        order = np.argsort(-scores, kind="stable").tolist()
        return [RankedTitle(title_list[row], float(scores[row]), row) for row in order]

    def score(self, query: str, titles: Iterable[str]) -> Vectors:
        """Scores titles for a query: the cosine of the two vectors plus the weighted log-prior.

        The log-prior is the log of the title's fraction of all clicks; training chooses its
        weight. Scores of different queries are not comparable.

        Args:
            query: raw text.
            titles: raw texts, in any order; repeats allowed, and equal titles have equal scores.

        Returns:
            Scores float32 `(len(titles),)`.
        """
        return self.score_matrix(texts_of("query", [query]), titles)[0]

    def score_matrix(self, queries: Iterable[str], titles: Iterable[str]) -> Vectors:
        """Scores every title for every query; each title is encoded once.

        Args:
            queries: raw texts.
            titles: raw texts. A run and an export cache the vectors of the last lists, a compact
                model those of words.

        Returns:
            Scores float32 `(len(queries), len(titles))`.
        """
        vectors, priors, shared = self._encode_distinct(texts_of("titles", titles))
        return (self.encode_queries(queries) @ vectors.T + priors)[:, shared]

    def encode_queries(self, queries: Iterable[str], prior: bool = False) -> Vectors:
        """Semantic vectors of queries.

        Args:
            queries: raw texts.
            prior: False for unit vectors; the inner product of a query and a title is their
                cosine. True for vectors with one more number, 1 for a query and the weighted
                log-prior for a title; the inner product is the score:
                `[q, 1] . [t, p] = q . t + p`.

        Returns:
            float32 `(len(queries), dimension)`, or `(len(queries), dimension + 1)` with `prior`.
            The first `dimension` numbers of a text without a known letter are zero.
        """
        vectors = self._encode("query", texts_of("queries", queries))
        return np.column_stack([vectors, np.ones(len(vectors), "f4")]) if prior else vectors

    def encode_titles(self, titles: Iterable[str], prior: bool = False) -> Vectors:
        """Semantic vectors of titles, to be indexed; see `encode_queries`."""
        titles = texts_of("titles", titles)
        vectors = self._encode("title", titles)
        return np.column_stack([vectors, self.weighted_prior(titles)]) if prior else vectors

    def weighted_prior(self, titles: Iterable[str]) -> Vectors:
        """The part of the scores that does not depend on the query, `(len(titles),)`."""
        return self._weighted_priors([self.vocabulary.rules.key(title) for title in titles])

    def _encode_distinct(self, titles: Sequence[str]) -> tuple[Vectors, Vectors, NDArray[np.intp]]:
        """Vectors and priors of the distinct titles, and the index of each title among them.

        Titles with the same normalized text share a column and so have equal scores; in a matrix
        product, equal columns can differ in the last bit.
        """
        distinct, shared = self.vocabulary.rules.distinct(titles)
        return self._encode("title", distinct), self._weighted_priors(distinct), shared


def unit(vectors: Vectors) -> Vectors:
    """Normalizes vectors to length 1; zero vectors stay, as in `normalize_vectors` of the model."""
    squares = np.einsum("nd,nd->n", vectors, vectors)
    return vectors / np.sqrt(np.maximum(squares, 1e-12))[:, None]


def texts_of(name: str, texts: Iterable[Any]) -> Sequence[str]:
    """Checks that texts are strings and returns a list, or the same tuple (a key of caches).

    Raises:
        TypeError: an element is not a string, or `texts` is a single string.
    """
    if isinstance(texts, (str, bytes)):
        raise TypeError(f"{name} is one {type(texts).__name__}; expected a list of str.")
    sequence = texts if isinstance(texts, tuple) else list(texts)
    for row, text in enumerate(sequence):
        if not isinstance(text, str):
            raise TypeError(f"{name}[{row}] is {text!r:.60}; expected str.")
    return sequence
