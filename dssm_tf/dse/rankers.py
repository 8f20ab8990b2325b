"""DSE, SSI and PSI as baselines: trained on clicks by Keras, scored by NumPy."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveFloat, PrivateAttr
from scipy import sparse

from dssm_tf.baselines.base import Baseline, Click, Floats, LearnedShapes
from dssm_tf.baselines.stable_product import stable_product
from dssm_tf.common.field_types import Fraction, PositiveInt, Seed
from dssm_tf.common.progress import progress_of
from dssm_tf.dse.bag_of_words import BagOfWords, Normalization
from dssm_tf.dse.click_matrix import ClickMatrix, has_pairs
from dssm_tf.dse.settings import FineTuning, Pretraining

if TYPE_CHECKING:
    from dssm_tf.dse.networks import BagPair, DSETower


_DIMENSION = 100
"""Default embedding size (Wu et al. 2014, sec. 4.3)."""


@dataclass(frozen=True, eq=False)
class BagWeights:
    """A trained pair model.

    Attributes:
        words: the words of the bag, most frequent first.
        idf: the IDF of each word, see `BagOfWords`.
        matrices: the trained matrices, float64.
    """

    words: tuple[str, ...]
    idf: Floats
    matrices: tuple[Floats, ...]


class BagRanker(Baseline[BagWeights]):
    """A pair model of word vectors, trained by margin rank loss on a click log.

    Training tuples are a query, a title clicked for it, drawn as often as it was clicked, and
    the titles of the other clicks of the batch that were never clicked for the query. A fraction of
    the draws uses a title of the corpus as its own query, so that titles without a click are
    learned too. Some queries are for validation: the weights with the least rank loss on them are
    used.

    Scores come from NumPy in double precision, from the trained weights and without Keras: the
    same to the last bit in any batch.

    Reference: Wu et al. 2014.
    """

    normalization: ClassVar[Normalization] = "length"
    learned_type: ClassVar[type[BagWeights]] = BagWeights
    learned_shapes: ClassVar[LearnedShapes] = {"idf": ("words",)}

    size: PositiveInt = Field(
        default=1000, description="D, the number of most frequent words to keep."
    )
    dimension: PositiveInt | None = Field(
        default=None, description="C, the embedding size; None is 100, or D if that is less."
    )
    weighting: Literal["tfidf", "binary"] = Field(
        default="tfidf", description="Weights of the words, see `BagOfWords`."
    )
    steps: PositiveInt = Field(default=1000, description="Batches of tuples.")
    batch_size: Annotated[int, Field(ge=2)] = Field(default=256, description="Clicks per batch.")
    optimizer: Literal["adam", "sgd"] = Field(
        default="adam",
        description="`adam` is more forgiving without tuning; `sgd` with momentum is the paper's.",
    )
    learning_rate: PositiveFloat = Field(
        default=0.01, description="Learning rate of the first step."
    )
    title_queries: Fraction = Field(
        default=0.25, lt=1, description="Fraction of the draws that use a title as its own query."
    )
    validation_fraction: Fraction = Field(
        default=0.1, lt=1, description="Fraction of the queries that choose the best weights."
    )
    seed: Seed = Field(
        default=0, description="Seed of weights, batches and the validation queries."
    )

    _bag: BagOfWords = PrivateAttr()

    def _fit(self, clicks: list[Click], titles: list[str]) -> BagWeights:
        from dssm_tf.dse.fine_tuning import LinkTask, fine_tune
        from dssm_tf.dse.pretraining import pretrain

        data = ClickMatrix.from_clicks(clicks, titles, self.name)
        bag = self._new_bag().fit([*data.titles, *data.queries])
        words = len(bag.words)
        model = self._make_model(words, self.dimension or min(_DIMENSION, words))
        queries, answers = bag.transform(data.queries), bag.transform(data.titles)
        validation_rows, training_rows = data.split_queries(self.validation_fraction, self.seed)
        validation = data.of_queries(validation_rows).astype(bool)
        validation.resize(len(data.queries) + len(data.titles), len(data.titles))
        links, known, weights = data.training(training_rows, self.title_queries)
        task = LinkTask(
            sparse.vstack([queries, answers]).tocsr(),
            answers,
            links,
            known,
            validation=validation if has_pairs(validation) else None,
            weights=weights,
        )
        pretraining, towers = self._pretraining(model, queries, answers)
        total = pretraining.steps * sum(len(tower.rbms) for tower, _ in towers) + self.steps
        tuning = FineTuning(
            self.steps, self.learning_rate, self.optimizer, batch_size=self.batch_size
        )
        with progress_of(self.name, total, self._show_progress) as bar:
            callback = partial(bar.advance, 1)
            for tower, bags in towers:
                pretrain(tower, bags, pretraining, seed=self.seed, callback=callback)
            fine_tune(model, task, tuning, seed=self.seed, callback=callback)
        matrices = tuple(matrix.astype(np.float64) for matrix in self._matrices(model))
        return BagWeights(bag.words, bag.idf, matrices)

    def _new_bag(self) -> BagOfWords:
        return BagOfWords(self.size, weighting=self.weighting, normalization=self.normalization)

    @abc.abstractmethod
    def _make_model(self, words: int, dimension: int) -> BagPair:
        """The untrained pair model."""

    def _pretraining(
        self, model: BagPair, queries: sparse.csr_matrix, titles: sparse.csr_matrix
    ) -> tuple[Pretraining, list[tuple[DSETower, sparse.csr_matrix]]]:
        """How to pretrain, and the towers to pretrain with their texts: none, except for DSE."""
        return Pretraining(0), []

    def _matrices(self, model: BagPair) -> list[NDArray[np.float32]]:
        """The trained weights that scores need."""
        return [weight.numpy() for weight in model.weights]

    def _build_index(self) -> None:
        self._bag = self._new_bag().use(self.learned.words, self.learned.idf)

    def _encode_titles(self, titles: tuple[str, ...]) -> Any:
        bags = self._bag.transform(titles).astype(np.float64)
        return bags.T.tocsr(), np.ascontiguousarray(self._title_vectors(bags).T)

    def _score(self, queries: Sequence[str], encoded: Any) -> Floats:
        bags = self._bag.transform(queries).astype(np.float64)
        vectors = self._query_vectors(bags)
        vectors[np.diff(bags.indptr) == 0] = 0
        return stable_product(vectors, encoded[1])

    @abc.abstractmethod
    def _query_vectors(self, bags: sparse.csr_matrix) -> Floats:
        """Vectors of queries, `(queries, length)`."""

    @abc.abstractmethod
    def _title_vectors(self, bags: sparse.csr_matrix) -> Floats:
        """Vectors of titles, `(titles, length)`."""


class SSI(BagRanker):
    """Scores by `q'(U'U + I)d` on normalized word vectors; with the parameters of `BagRanker`.

    Reference: Bai et al. 2009 (Supervised semantic indexing); Wu et al. 2014, eq. 26-27.
    """

    name = "ssi"

    def _make_model(self, words: int, dimension: int) -> BagPair:
        from dssm_tf.dse.networks import SSIPair

        return SSIPair(words, dimension, seed=self.seed)

    def _score(self, queries: Sequence[str], encoded: Any) -> Floats:
        lexical = self._bag.transform(queries).astype(np.float64) @ encoded[0]
        return super()._score(queries, encoded) + lexical.toarray()

    def _query_vectors(self, bags: sparse.csr_matrix) -> Floats:
        vectors: Floats = bags @ self.learned.matrices[0]
        return vectors

    _title_vectors = _query_vectors


class PSI(SSI):
    """Scores by `q'(U'U + I)d + sum_i (Pq)_i (Vd)_i (Yd)_i`; with the parameters of `BagRanker`.

    Reference: Bai et al. 2009 (Polynomial semantic indexing), degree 3; Wu et al. 2014, sec. 4.3.
    """

    name = "psi"

    def _make_model(self, words: int, dimension: int) -> BagPair:
        from dssm_tf.dse.networks import PSIPair

        return PSIPair(words, dimension, seed=self.seed)

    def _query_vectors(self, bags: sparse.csr_matrix) -> Floats:
        u, p, *_ = self.learned.matrices
        return np.concatenate([bags @ u, bags @ p], axis=1)

    def _title_vectors(self, bags: sparse.csr_matrix) -> Floats:
        u, _, v, y = self.learned.matrices
        return np.concatenate([bags @ u, (bags @ v) * (bags @ y)], axis=1)


class DSE(BagRanker):
    """Scores by the dot product of the outputs of a network of stacked RBMs.

    Reference: Wu et al. 2014.
    """

    name = "dse"
    # The entries of vectors of length 1 are so near 0 that an RBM learns nothing from them.
    normalization = "largest"

    weighting: Literal["tfidf", "binary"] = Field(
        default="binary",
        description="Weights of the words, see `BagOfWords`; `binary` suits an RBM's units best.",
    )
    learning_rate: PositiveFloat = Field(
        default=0.003, description="Learning rate of the first step."
    )
    shared: bool = Field(
        default=True, description="Queries and titles go through one tower, as in the paper."
    )
    bilinear: bool = Field(
        default=False, description="The matrix A between query and title is learned (eq. 1)."
    )
    pretraining_steps: Annotated[int, Field(ge=0)] = Field(
        default=500, description="Batches of contrastive divergence for each RBM; 0 for none."
    )

    def _make_model(self, words: int, dimension: int) -> BagPair:
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
        weights = [weight.numpy() for rbm in layers for weight in (rbm.kernel, rbm.hidden_bias)]
        return [*weights, model.relation.numpy()] if self.bilinear else weights

    def _query_vectors(self, bags: sparse.csr_matrix) -> Floats:
        vectors = self._feed_forward(bags, 0)
        return stable_product(vectors, self.learned.matrices[-1]) if self.bilinear else vectors

    def _title_vectors(self, bags: sparse.csr_matrix) -> Floats:
        return self._feed_forward(bags, 0 if self.shared else 1)

    def _feed_forward(self, bags: sparse.csr_matrix, tower: int) -> Floats:
        """The feed-forward network of `DSETower`, in double precision."""
        from scipy.special import expit  # takes a tenth of a second to import

        first = 8 * tower  # a kernel and a bias for each of four layers
        kernels = self.learned.matrices[first : first + 8 : 2]
        biases = self.learned.matrices[first + 1 : first + 8 : 2]
        vectors = bags @ kernels[0] + biases[0]
        for kernel, bias in zip(kernels[1:], biases[1:], strict=True):
            vectors = stable_product(expit(vectors), kernel) + bias
        return np.asarray(vectors)
