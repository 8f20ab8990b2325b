"""The base class of rankers that compare texts by the cosine of their vectors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.runtime.trained_ranker import TrainedRanker, Vectors, texts_of

Side = Literal["query", "title"]


class VectorRanker(TrainedRanker):
    """A trained model with a vector for each text; see `TrainedRanker` for its other attributes.

    Attributes:
        tower_name: the name of its tower, such as `lstm`; empty if unknown.
    """

    tower_name: str = ""

    @abstractmethod
    def _encode(self, side: Side, texts: Sequence[str]) -> Vectors:
        """Unit vectors `(len(texts), dimension)`, without the prior."""

    def score_matrix(self, queries: Iterable[str], titles: Iterable[str]) -> Vectors:
        """Scores every title for every query; each title is encoded once.

        Args:
            queries: raw texts.
            titles: raw texts. A run and an export cache the vectors of the last lists, a compact
                model those of words.

        Returns:
            Scores float32 `(len(queries), len(titles))`.
        """
        vectors, priors, row_of_title = self._encode_distinct(texts_of("titles", titles))
        return (self.encode_queries(queries) @ vectors.T + priors)[:, row_of_title]

    def similarity_matrix(self, queries: Iterable[str], titles: Iterable[str]) -> Vectors:
        """The cosines of queries and titles, float32 `(len(queries), len(titles))`."""
        vectors, _, row_of_title = self._encode_distinct(texts_of("titles", titles))
        return (self.encode_queries(queries) @ vectors.T)[:, row_of_title]

    def score_pairs(self, queries: Iterable[str], titles: Iterable[str]) -> Vectors:
        """Scores each title for its own query, float32 `(len(titles),)`.

        Args:
            queries: raw texts, one for each title, or one for all.
            titles: raw texts.
        """
        query_vectors = self.encode_queries(queries, prior=True)
        products: Vectors = query_vectors * self.encode_titles(titles, prior=True)
        return products.sum(axis=1)

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
            The first `dimension` numbers of a text without a known letter n-gram are zero.
        """
        vectors = self._encode("query", texts_of("queries", queries))
        return np.column_stack([vectors, np.ones(len(vectors), "f4")]) if prior else vectors

    def encode_titles(self, titles: Iterable[str], prior: bool = False) -> Vectors:
        """Semantic vectors of titles, to be indexed; see `encode_queries`."""
        titles = texts_of("titles", titles)
        vectors = self._encode("title", titles)
        return np.column_stack([vectors, self.weighted_prior(titles)]) if prior else vectors

    def _encode_distinct(self, titles: Sequence[str]) -> tuple[Vectors, Vectors, NDArray[np.intp]]:
        """Vectors and priors of the distinct titles, and the index of each title among them.

        Titles with the same normalized text share a column and so have equal scores; in a matrix
        product, equal columns can differ in the last bit.
        """
        keys, row_of_title = self.vocabulary.rules.distinct(titles)
        return self._encode("title", keys), self._weighted_priors(keys), row_of_title


def require_vectors(ranker: object, source: object) -> VectorRanker:
    """Checks that a ranker has a vector for each text, and returns it.

    Args:
        ranker: a trained model or a baseline.
        source: the directory it was loaded from, for the message.

    Raises:
        UserError: the ranker has no vectors.
    """
    if isinstance(ranker, VectorRanker):
        return ranker
    if isinstance(ranker, TrainedRanker):
        raise no_vectors(source)
    raise UserError(f"{source} is a baseline, which has no vectors; give a trained model.")


def no_vectors(source: object) -> UserError:
    """The error for a model with the score maxsim where vectors are needed.

    Args:
        source: the directory of the model.
    """
    return UserError(
        f"{source} is a maxsim model, which has no vector per text; give a model with the score "
        "cosine."
    )


def normalize_vectors(vectors: Vectors) -> Vectors:
    """Scales vectors `(vectors, dimension)` to length 1; a zero vector stays zero.

    The same as `dssm_tf.scores.score.normalize_vectors`.
    """
    squares = np.einsum("nd,nd->n", vectors, vectors)
    return vectors / np.sqrt(np.maximum(squares, 1e-12))[:, None]
