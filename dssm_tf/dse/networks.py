"""The networks of the DSE paper: two bags of words in, a dot product of two vectors out."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import keras
import numpy as np
from keras import ops
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.common.errors import UserError
from dssm_tf.dse.rbm import RBM, HiddenKind, Tensor

_ROWS = 1024  # encoded together

Bags: TypeAlias = Any  # a sparse matrix, or a dense one
"""Vectors over words, `(texts, words)`, or over the units of a layer."""

ScoreFunction = Callable[[NDArray[np.int64]], NDArray[np.floating[Any]]]
"""From indices of queries to scores `(queries, titles)`."""


class BagPair(keras.Model, abc.ABC):
    """Scores every title of a batch for every query of it by the dot product of their vectors.

    Differs from `dssm_tf.model.siamese.Siamese` by its inputs, vectors over words instead of text
    batches, by the plain dot product instead of the cosine, and by scoring all pairs, so that a
    title is encoded once for all its training tuples.

    Call arguments:
        queries: `(queries, words)`.
        titles: `(titles, words)`.

    Returns:
        `(queries, titles)`.
    """

    def call(self, queries: Tensor, titles: Tensor) -> Tensor:
        """Scores of all pairs."""
        return ops.matmul(self.query_vectors(queries), ops.transpose(self.title_vectors(titles)))

    @abc.abstractmethod
    def query_vectors(self, queries: Tensor) -> Tensor:
        """Vectors of queries, `(queries, length)`; a title's vector has the same length."""

    @abc.abstractmethod
    def title_vectors(self, titles: Tensor) -> Tensor:
        """Vectors of titles, `(titles, length)`."""


class DSETower(keras.layers.Layer):
    """Maps word features to a semantic vector through RBMs used as feed-forward layers.

    Not a `Tower`: that class starts from the letter n-grams of a text batch and zeroes the
    vectors of empty texts, whereas this network, as the paper has it, reads vectors over the
    most frequent words, from which an empty text cannot be recognized.

    `dssm_tf.dse.pretraining` trains each RBM without labels on the means of the hidden units of the
    one below. `call` of an RBM returns these means, so the stack of RBMs is the unrolled network;
    fine-tuning continues with the same weights by back-propagation.

    Args:
        words: D, the length of the input.
        dimension: C, the length of the semantic vector, at most D.
        widths: units of the binary layers; `(D/2, D/2, D)` as in the paper by default.
        seed: seed of weights and sampling.

    Call arguments:
        bags: `(texts, words)`, each entry from 0 to 1.

    Returns:
        `(texts, dimension)`.

    Raises:
        UserError: C is not from 1 to D.

    Reference: Wu et al. 2014, sec. 2.1-2.2 and 4.1.
    """

    def __init__(
        self,
        words: int,
        dimension: int = 100,
        widths: Sequence[int] | None = None,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        _check_dimension(dimension, words)
        half = max(1, words // 2)
        widths = (half, half, words) if widths is None else widths
        kinds: list[tuple[int, HiddenKind]] = [(units, "binary") for units in widths]
        kinds.append((dimension, "gaussian"))
        self.rbms = []
        for index, (units, kind) in enumerate(kinds):
            rbm = RBM(units, kind, seed=seed + index, name=f"rbm_{index}", dtype=self.dtype_policy)
            rbm.build((None, words))
            self.rbms.append(rbm)
            words = units
        self.built = True

    def call(self, bags: Tensor) -> Tensor:
        """The means of the hidden units, layer by layer."""
        for rbm in self.rbms:
            bags = rbm(bags)
        return bags


class DSEPair(BagPair):
    """Scores by `phi(q)' A phi(d)`, with one tower or two; A is the identity unless `bilinear`.

    Args:
        words: D.
        dimension: C.
        shared: whether queries and titles go through one tower, as in the paper.
        bilinear: whether A is learned; it starts as the identity.
        widths: units of the binary layers, see `DSETower`.
        seed: seed of weights and sampling.

    Call arguments, returns: see `BagPair`.

    Reference: Wu et al. 2014, eq. 1-2.
    """

    def __init__(
        self,
        words: int,
        dimension: int = 100,
        shared: bool = True,
        bilinear: bool = False,
        widths: Sequence[int] | None = None,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)

        def tower(name: str, first_seed: int) -> DSETower:
            return DSETower(
                words, dimension, widths, first_seed, name=name, dtype=self.dtype_policy
            )

        self.query_tower = tower("tower" if shared else "query_tower", seed)
        self.title_tower = self.query_tower if shared else tower("title_tower", seed + 100)
        self.relation = None
        if bilinear:
            self.relation = self.add_weight(
                name="relation", shape=(dimension, dimension), initializer="identity"
            )
        self.built = True

    def query_vectors(self, queries: Tensor) -> Tensor:
        """`A' phi(q)`: `(queries, dimension)`."""
        vectors = self.query_tower(queries)
        return vectors if self.relation is None else ops.matmul(vectors, self.relation)

    def title_vectors(self, titles: Tensor) -> Tensor:
        """`phi(d)`: `(titles, dimension)`."""
        return self.title_tower(titles)


class SSIPair(BagPair):
    """Scores by `q'(U'U + I)d`: a linear embedding in addition to the words.

    Args:
        words: D.
        dimension: C, rows of U.
        seed: seed of the initial U.

    Call arguments, returns: see `BagPair`.

    Raises:
        UserError: C is not from 1 to D.

    Reference: Bai et al. 2009 (Supervised semantic indexing); Wu et al. 2014, eq. 26-27.
    """

    _matrices: tuple[str, ...] = ("embedding",)  # U', columns instead of rows

    def __init__(
        self,
        words: int,
        dimension: int = 100,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        _check_dimension(dimension, words)
        for index, name in enumerate(self._matrices):
            matrix = self.add_weight(
                name=name,
                shape=(words, dimension),
                initializer=keras.initializers.RandomNormal(stddev=0.1, seed=seed + index),
            )
            setattr(self, name, matrix)
        self.built = True

    def query_vectors(self, queries: Tensor) -> Tensor:
        """`[Uq, q]`: `(queries, dimension + words)`."""
        return ops.concatenate([ops.matmul(queries, self.embedding), queries], axis=-1)

    def title_vectors(self, titles: Tensor) -> Tensor:
        """`[Ud, d]`: `(titles, dimension + words)`."""
        return ops.concatenate([ops.matmul(titles, self.embedding), titles], axis=-1)


class PSIPair(SSIPair):
    """Scores by SSI's terms plus `sum_i (Pq)_i (Vd)_i (Yd)_i`: pairs of a title's words count.

    The title has two embeddings in the product of three, as Wu et al. 2014, sec. 4.3, remark. P is
    the query's own (U in the cited paper, where the terms of degree 2 and 3 do not share it).

    Args, call arguments, returns: see `SSIPair`; all four embeddings are of one size.

    Reference: Bai et al. 2009 (Polynomial semantic indexing), degree 3; Wu et al. 2014, sec. 4.3.
    """

    _matrices = ("embedding", "cubic_query", "cubic_first", "cubic_second")  # U', P', V', Y'

    def query_vectors(self, queries: Tensor) -> Tensor:
        """`[Uq, q, Pq]`: `(queries, 2 * dimension + words)`."""
        cubic = ops.matmul(queries, self.cubic_query)
        return ops.concatenate([super().query_vectors(queries), cubic], axis=-1)

    def title_vectors(self, titles: Tensor) -> Tensor:
        """`[Ud, d, Vd * Yd]`: `(titles, 2 * dimension + words)`."""
        cubic = ops.matmul(titles, self.cubic_first) * ops.matmul(titles, self.cubic_second)
        return ops.concatenate([super().title_vectors(titles), cubic], axis=-1)


def dense_rows(bags: Bags, rows: NDArray[np.int64] | slice) -> NDArray[np.float32]:
    """Some rows of bags, which may be sparse, as a dense matrix."""
    chosen = bags[rows]
    return chosen.toarray() if sparse.issparse(chosen) else chosen


def encode(encoder: Callable[[NDArray[np.float32]], Any], bags: Bags) -> NDArray[np.float32]:
    """Vectors of all bags by `BagPair.query_vectors`, `title_vectors`, a tower or an RBM."""
    starts = range(0, bags.shape[0], _ROWS)
    blocks = [encoder(dense_rows(bags, slice(start, start + _ROWS))) for start in starts]
    return np.concatenate([ops.convert_to_numpy(block) for block in blocks])


def pair_scores(model: BagPair, queries: Bags, titles: Bags) -> ScoreFunction:
    """Scores of a pair model with its current weights; every title is encoded once."""
    answers = encode(model.title_vectors, titles).T
    return lambda rows: encode(model.query_vectors, queries[rows]) @ answers


def margin_rank(scores: Tensor, mask: Tensor) -> Tensor:
    """`max(0, 1 - s(q, d+) + s(q, d-))`, the mean over all tuples of the batch.

    The paper sums over the tuples; the mean also weighs them equally, and does not grow with the
    batch. The margin of 1 is not a parameter: dot products can grow, so another value only changes
    their scale.

    Args:
        scores: `(batch, batch)`, of every title for every query; title i is relevant to query i.
        mask: `(batch, batch)`, 1 where query i, its title i and title j make a tuple, else 0.

    Returns:
        A scalar; 0 without a tuple.

    Reference: Wu et al. 2014, eq. 14.
    """
    mask = ops.cast(mask, scores.dtype)
    hinges = ops.relu(1 - ops.expand_dims(ops.diagonal(scores), -1) + scores)
    return ops.sum(mask * hinges) / ops.maximum(ops.sum(mask), 1)


def _check_dimension(dimension: int, word_count: int) -> None:
    if not 1 <= dimension <= word_count:
        raise UserError(
            f"an embedding of dimension {dimension} was requested for texts over {word_count} "
            "words; expected 1 <= dimension <= words (C < D in the paper). Lower it, or keep more "
            "words."
        )
