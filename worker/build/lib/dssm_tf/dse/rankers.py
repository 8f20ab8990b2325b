"""`dse`, `ssi` and `psi` as rows of the benchmark: trained on clicks, scoring without Keras."""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy import sparse
from scipy.special import expit

from dssm_tf.baselines.base import AboveZero, Baseline, Click, Count, Floats, Seed
from dssm_tf.baselines.stable_product import stable_product
from dssm_tf.common.progress import progress_of
from dssm_tf.dse.bag_of_words import BagOfWords
from dssm_tf.dse.click_matrix import ClickMatrix, can_be_ranked
from dssm_tf.dse.settings import FineTuning, Pretraining

if TYPE_CHECKING:
    from dssm_tf.dse.networks import BagPair, DSETower

BelowOne = Annotated[float, Field(ge=0, lt=1)]

_DIMENSION = 100
"""Embedding size of W14 sec. 4.3, taken where nothing else is asked for."""


class BagRanker(Baseline):
    """A pair model of word vectors, trained by margin rank loss on a click log.

    Training tuples are a query, a title clicked for it, drawn as often as it was clicked, and
    the titles of the other clicks of the batch that were never clicked for the query. A part of
    the draws takes a title of the corpus as its own query, so that titles without a click have
    a place too. Some queries are held out; of the models on the way, the one with the least rank
    loss on them is kept.

    Scores come from NumPy in double precision, from the trained weights and without Keras: the
    same to the last bit in any batch.

    Args:
        size: D, the most frequent words of titles and queries to keep.
        dimension: C; by default 100, or D where that is less.
        weighting: `"tfidf"` or `"binary"`, see `BagOfWords`.
        steps: batches of tuples.
        batch_size: clicks a batch.
        optimizer: `"adam"`, which is more forgiving where nobody tunes it, or `"sgd"` with
            momentum, the paper's.
        learning_rate: of the first step.
        title_queries: share of the draws that take a title as its own query, below 1.
        held_out: share of the queries for choosing the model.
        seed: of weights, batches and the held-out queries.

    Attributes:
        words: that it reads.
        idf: of each, see `BagOfWords`.
        shapes: of the trained matrices.
        weights: all their entries, one matrix after the other.

    Reference: Wu et al. 2014.
    """

    normalization: ClassVar[Any] = "length"
    size: Count = 1000
    dimension: Count | None = None
    weighting: Literal["tfidf", "binary"] = "tfidf"
    steps: Count = 1000
    batch_size: Annotated[int, Field(ge=2)] = 256
    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: AboveZero = 0.01
    title_queries: BelowOne = 0.25
    held_out: BelowOne = 0.1
    seed: Seed = 0

    words: list[str]
    idf: Floats
    shapes: list[list[int]]
    weights: Floats

    def _learn(self, clicks: list[Click], titles: list[str]) -> None:
        from dssm_tf.dse.fine_tuning import LinkTask, fine_tune
        from dssm_tf.dse.pretraining import pretrain

        data = ClickMatrix.of(clicks, titles, self.name)
        bag = self._new_bag().fit([*data.titles, *data.queries])
        words = len(bag.words)
        model = self._make(words, self.dimension or min(_DIMENSION, words))
        queries, answers = bag.transform(data.queries), bag.transform(data.titles)
        chosen, others = data.held_out(self.held_out, self.seed)
        held = data.of_queries(chosen).astype(bool)
        held.resize(len(data.queries) + len(data.titles), len(data.titles))
        learned, known, weights = data.training(others, self.title_queries)
        task = LinkTask(
            sparse.vstack([queries, answers]).tocsr(),
            answers,
            learned,
            known,
            validation=held if can_be_ranked(held) else None,
            weights=weights,
        )
        pretraining, towers = self._pretraining(model, queries, answers)
        total = pretraining.steps * sum(len(tower.rbms) for tower, _ in towers) + self.steps
        tuning = FineTuning(
            self.steps, self.learning_rate, self.optimizer, batch_size=self.batch_size
        )
        with progress_of(self.name, total, self.progress) as bar:
            callback = partial(bar.advance, 1)
            for tower, bags in towers:
                pretrain(tower, bags, pretraining, seed=self.seed, callback=callback)
            fine_tune(model, task, tuning, seed=self.seed, callback=callback)
        matrices = self._matrices(model)
        self.words, self.idf = list(bag.words), bag.idf
        self.shapes = [list(matrix.shape) for matrix in matrices]
        self.weights = np.concatenate([matrix.ravel() for matrix in matrices]).astype(np.float64)

    def _new_bag(self) -> BagOfWords:
        return BagOfWords(self.size, weighting=self.weighting, normalization=self.normalization)

    @abc.abstractmethod
    def _make(self, words: int, dimension: int) -> BagPair:
        """The untrained pair model."""

    def _pretraining(
        self, model: BagPair, queries: sparse.csr_matrix, titles: sparse.csr_matrix
    ) -> tuple[Pretraining, list[tuple[DSETower, sparse.csr_matrix]]]:
        """What is pretrained, on what and how: nothing, except for DSE."""
        return Pretraining(0), []

    def _matrices(self, model: BagPair) -> list[NDArray[np.float32]]:
        """The trained weights that scores need."""
        return [weight.numpy() for weight in model.weights]

    def _index(self) -> None:
        self._bag = self._new_bag().keep(self.words, self.idf)
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])
        self._trained = [
            part.reshape(shape)
            for part, shape in zip(np.split(self.weights, ends[:-1]), self.shapes, strict=True)
        ]

    def _prepare(self, titles: tuple[str, ...]) -> Any:
        bags = self._bag.transform(titles).astype(np.float64)
        return bags.T.tocsr(), np.ascontiguousarray(self._title_vectors(bags).T)

    def _score(self, queries: Sequence[str], prepared: Any) -> Floats:
        bags = self._bag.transform(queries).astype(np.float64)
        vectors = self._query_vectors(bags)
        vectors[np.diff(bags.indptr) == 0] = 0
        return stable_product(vectors, prepared[1])

    @abc.abstractmethod
    def _query_vectors(self, bags: sparse.csr_matrix) -> Floats:
        """Vectors of queries, `(queries, length)`."""

    @abc.abstractmethod
    def _title_vectors(self, bags: sparse.csr_matrix) -> Floats:
        """Vectors of titles, `(titles, length)`."""


class SSI(BagRanker):
    """Scores by `q'(U'U + I)d` on normalised word vectors; parameters of `BagRanker`.

    Reference: Bai et al. 2009 (Supervised semantic indexing); Wu et al. 2014, eq. 26-27.
    """

    name = "ssi"

    def _make(self, words: int, dimension: int) -> BagPair:
        from dssm_tf.dse.networks import SSIPair

        return SSIPair(words, dimension, seed=self.seed)

    def _score(self, queries: Sequence[str], prepared: Any) -> Floats:
        lexical = self._bag.transform(queries).astype(np.float64) @ prepared[0]
        return super()._score(queries, prepared) + lexical.toarray()

    def _query_vectors(self, bags: sparse.csr_matrix) -> Floats:
        vectors: Floats = bags @ self._trained[0]
        return vectors

    _title_vectors = _query_vectors


class PSI(SSI):
    """Scores by `q'(U'U + I)d + sum_i (Pq)_i (Vd)_i (Yd)_i`; parameters of `BagRanker`.

    Reference: Bai et al. 2009 (Polynomial semantic indexing), degree 3; Wu et al. 2014, sec. 4.3.
    """

    name = "psi"

    def _make(self, words: int, dimension: int) -> BagPair:
        from dssm_tf.dse.networks import PSIPair

        return PSIPair(words, dimension, seed=self.seed)

    def _query_vectors(self, bags: sparse.csr_matrix) -> Floats:
        u, p, *_ = self._trained
        return np.concatenate([bags @ u, bags @ p], axis=1)

    def _title_vectors(self, bags: sparse.csr_matrix) -> Floats:
        u, _, v, y = self._trained
        return np.concatenate([bags @ u, (bags @ v) * (bags @ y)], axis=1)


class DSE(BagRanker):
    """Scores by the dot product of the outputs of a network of stacked RBMs.

    Args:
        shared: whether queries and titles go through one tower, as in the paper.
        bilinear: whether the matrix A between query and title is learned (eq. 1).
        pretraining_steps: batches of contrastive divergence, for each RBM; 0 for none.
        weighting: see `BagRanker`; whether a word is there suits an RBM's units best.
        learning_rate: see `BagRanker`.

    Reference: Wu et al. 2014.
    """

    name = "dse"
    # Vectors of length 1 are so near 0 in each entry that an RBM finds nothing in them to learn.
    normalization = "largest"
    weighting = "binary"
    learning_rate = 0.003
    shared: bool = True
    bilinear: bool = False
    pretraining_steps: Annotated[int, Field(ge=0)] = 500

    def _make(self, words: int, dimension: int) -> BagPair:
        from dssm_tf.dse.networks import DSEPair

        return DSEPair(words, dimension, self.shared, self.bilinear, seed=self.seed)

    def _pretraining(
        self, model: BagPair, queries: sparse.csr_matrix, titles: sparse.csr_matrix
    ) -> tuple[Pretraining, list[tuple[DSETower, sparse.csr_matrix]]]:
        settings = Pretraining(self.pretraining_steps)
        if self.shared:
            return settings, [(model.query_tower, sparse.vstack([queries, titles]).tocsr())]
        return settings, [(model.query_tower, queries), (model.title_tower, titles)]

    def _matrices(self, model: BagPair) -> list[NDArray[np.float32]]:
        """Kernel and bias of each layer of each tower, then A if it is learned."""
        towers = [model.query_tower] if self.shared else [model.query_tower, model.title_tower]
        layers = [rbm for tower in towers for rbm in tower.rbms]
        found = [weight.numpy() for rbm in layers for weight in (rbm.kernel, rbm.hidden_bias)]
        return [*found, model.relation.numpy()] if self.bilinear else found

    def _query_vectors(self, bags: sparse.csr_matrix) -> Floats:
        vectors = self._unrolled(bags, 0)
        return stable_product(vectors, self._trained[-1]) if self.bilinear else vectors

    def _title_vectors(self, bags: sparse.csr_matrix) -> Floats:
        return self._unrolled(bags, 0 if self.shared else 1)

    def _unrolled(self, bags: sparse.csr_matrix, tower: int) -> Floats:
        """The feed-forward network of `DSETower`, in double precision."""
        first = 8 * tower  # a kernel and a bias for each of four layers
        kernels, biases = (self._trained[start : first + 8 : 2] for start in (first, first + 1))
        vectors = bags @ kernels[0] + biases[0]
        for kernel, bias in zip(kernels[1:], biases[1:], strict=True):
            vectors = stable_product(expit(vectors), kernel) + bias
        return np.asarray(vectors)
