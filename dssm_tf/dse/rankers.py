"""`dse`, `ssi` and `psi` as rows of the benchmark: trained on clicks, scoring without Keras."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit

from dssm_tf.baselines.base import Click
from dssm_tf.baselines.model_file import Arrays, Settings
from dssm_tf.baselines.old_base import OldBaseline
from dssm_tf.baselines.stable_product import stable_product
from dssm_tf.common.progress import progress_of
from dssm_tf.dse.bag_of_words import BagOfWords
from dssm_tf.dse.relevance import ClickData, can_be_ranked
from dssm_tf.dse.settings import FineTuning, Pretraining
from dssm_tf.evaluation.title_cache import TitleCache

if TYPE_CHECKING:
    from typing_extensions import Self

    from dssm_tf.dse.networks import BagPair, DSETower

Vectors = NDArray[np.float64]

DIMENSION = 100
"""Embedding size of W14 sec. 4.3, taken where nothing else is asked for."""


class BagRanker(OldBaseline):
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

    Raises:
        ValueError: an argument is outside of its range.

    Reference: Wu et al. 2014.
    """

    normalization = "length"
    _pretraining = Pretraining(0)
    _words_count = True
    """Whether the words themselves score beside their embeddings, the I of SSI."""

    def __init__(
        self,
        *,
        size: int = 1000,
        dimension: int | None = None,
        weighting: str = "tfidf",
        steps: int = 1000,
        batch_size: int = 256,
        optimizer: str = "adam",
        learning_rate: float = 0.01,
        title_queries: float = 0.25,
        held_out: float = 0.1,
        seed: int = 0,
    ) -> None:
        if not (0 <= title_queries < 1 and 0 <= held_out < 1):
            raise ValueError(
                f"{self.name} received title_queries={title_queries}, held_out={held_out}; "
                "expected shares from 0 to below 1."
            )
        if dimension is not None and not 1 <= dimension <= size:
            raise ValueError(
                f"{self.name} received dimension={dimension} with size={size} words; expected "
                "1 <= dimension <= size (C < D in the paper)."
            )
        self.size = size
        self.dimension = dimension
        self.weighting = weighting
        self.steps = steps
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.title_queries = title_queries
        self.held_out = held_out
        self.seed = seed
        self._fine_tuning = FineTuning(steps, learning_rate, optimizer, batch_size=batch_size)
        self._bag = BagOfWords(size, weighting=weighting, normalization=self.normalization)

    def fit(self, clicks: Iterable[Click], titles: Iterable[str]) -> Self:
        """Learns from the clicks; the titles add words and are their own queries.

        Raises:
            UserError: there is no click, no word, or C exceeds the number of words.
        """
        from dssm_tf.dse.fine_tuning import LinkTask, fine_tune
        from dssm_tf.dse.pretraining import pretrain

        data = ClickData.of(clicks, titles, self.name)
        self._bag.fit([*data.titles, *data.queries])
        words = len(self._bag.words)
        model = self._make(words, self.dimension or min(DIMENSION, words))
        queries, answers = self._bag.transform(data.queries), self._bag.transform(data.titles)
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
        towers = self._towers(model, queries, answers)
        taught = self._pretraining.steps * sum(len(tower.machines) for tower, _ in towers)
        with progress_of(self.name, taught + self.steps, self.progress) as bar:
            told = partial(bar.advance, 1)
            for tower, bags in towers:
                pretrain(tower, bags, self._pretraining, seed=self.seed, told=told)
            fine_tune(model, task, self._fine_tuning, seed=self.seed, told=told)
        self._take(self._export(model))
        return self

    @abc.abstractmethod
    def _make(self, words: int, dimension: int) -> BagPair:
        """The untrained pair model."""

    def _towers(
        self, model: BagPair, queries: sparse.csr_matrix, titles: sparse.csr_matrix
    ) -> list[tuple[DSETower, sparse.csr_matrix]]:
        """What is pretrained, and on what: nothing, except for DSE."""
        return []

    def _export(self, model: BagPair) -> Arrays:
        """The trained weights by name."""
        return {weight.name: weight.numpy() for weight in model.weights}

    @abc.abstractmethod
    def _query_vectors(self, bags: sparse.csr_matrix) -> Vectors:
        """Vectors of queries, `(queries, length)`."""

    @abc.abstractmethod
    def _title_vectors(self, bags: sparse.csr_matrix) -> Vectors:
        """Vectors of titles, `(titles, length)`."""

    def score_matrix(self, queries: Sequence[str], titles: Sequence[str]) -> NDArray[np.float64]:
        """Scores every title for every query by one product of their vectors."""
        bags, vectors = self._titles.get(titles, self._encode_titles)
        asked = self._bag.transform(queries).astype(np.float64)
        own = self._query_vectors(asked)
        own[np.diff(asked.indptr) == 0] = 0
        scores = stable_product(own, vectors)
        return scores + (asked @ bags).toarray() if self._words_count else scores

    def _encode_titles(self, titles: Sequence[str]) -> tuple[sparse.csr_matrix, Vectors]:
        bags = self._bag.transform(titles).astype(np.float64)
        return bags.T.tocsr(), np.ascontiguousarray(self._title_vectors(bags).T)

    def _what_is_learned(self) -> tuple[Settings, Arrays]:
        return {"bag": self._bag.to_json()}, self._arrays

    def _restore(self, settings: Settings, arrays: Arrays) -> None:
        self._bag = BagOfWords.from_json(settings["bag"])
        self._take(arrays)
        word = self._bag.words[0]
        self.score(word, [word])  # fails where matrices do not fit

    def _take(self, arrays: Arrays) -> None:
        self._arrays = {name: np.asarray(value, np.float64) for name, value in arrays.items()}
        self._titles: TitleCache[tuple[sparse.csr_matrix, Vectors]] = TitleCache()


class SSI(BagRanker):
    """Scores by `q'(U'U + I)d` on normalised word vectors.

    Args:
        options: see `BagRanker`.

    Reference: Bai et al. 2009 (Supervised semantic indexing); Wu et al. 2014, eq. 26-27.
    """

    name = "ssi"

    def _make(self, words: int, dimension: int) -> BagPair:
        from dssm_tf.dse.networks import SSIPair

        return SSIPair(words, dimension, seed=self.seed)

    def _query_vectors(self, bags: sparse.csr_matrix) -> Vectors:
        vectors: Vectors = bags @ self._arrays["embedding"]
        return vectors

    _title_vectors = _query_vectors


class PSI(SSI):
    """Scores by `q'(U'U + I)d + sum_i (Pq)_i (Vd)_i (Yd)_i` on normalised word vectors.

    Args:
        options: see `BagRanker`.

    Reference: Bai et al. 2009 (Polynomial semantic indexing), degree 3; Wu et al. 2014, sec. 4.3.
    """

    name = "psi"

    def _make(self, words: int, dimension: int) -> BagPair:
        from dssm_tf.dse.networks import PSIPair

        return PSIPair(words, dimension, seed=self.seed)

    def _query_vectors(self, bags: sparse.csr_matrix) -> Vectors:
        cubic = bags @ self._arrays["cubic_query"]
        return np.concatenate([super()._query_vectors(bags), cubic], axis=1)

    def _title_vectors(self, bags: sparse.csr_matrix) -> Vectors:
        cubic = (bags @ self._arrays["cubic_first"]) * (bags @ self._arrays["cubic_second"])
        return np.concatenate([super()._title_vectors(bags), cubic], axis=1)


class DSE(BagRanker):
    """Scores by the dot product of the outputs of a network of stacked RBMs.

    Args:
        shared: whether queries and titles go through one tower, as in the paper.
        bilinear: whether the matrix A between query and title is learned (eq. 1).
        pretraining_steps: batches of contrastive divergence, for each RBM; 0 for none.
        weighting: see `BagRanker`; whether a word is there suits an RBM's units best.
        learning_rate: see `BagRanker`.
        options: see `BagRanker`.

    Reference: Wu et al. 2014.
    """

    name = "dse"
    # Vectors of length 1 are so near 0 in each entry that an RBM finds nothing in them to learn.
    normalization = "largest"
    _words_count = False

    def __init__(
        self,
        *,
        shared: bool = True,
        bilinear: bool = False,
        pretraining_steps: int = 500,
        weighting: str = "binary",
        learning_rate: float = 0.003,
        **options: Any,
    ) -> None:
        super().__init__(weighting=weighting, learning_rate=learning_rate, **options)
        self._pretraining = Pretraining(pretraining_steps)
        self.shared = shared
        self.bilinear = bilinear
        self.pretraining_steps = pretraining_steps

    def _make(self, words: int, dimension: int) -> BagPair:
        from dssm_tf.dse.networks import DSEPair

        return DSEPair(words, dimension, self.shared, self.bilinear, seed=self.seed)

    def _towers(
        self, model: BagPair, queries: sparse.csr_matrix, titles: sparse.csr_matrix
    ) -> list[tuple[DSETower, sparse.csr_matrix]]:
        if self.shared:
            return [(model.query_tower, sparse.vstack([queries, titles]).tocsr())]
        return [(model.query_tower, queries), (model.title_tower, titles)]

    def _export(self, model: BagPair) -> Arrays:
        arrays = {"relation": model.relation.numpy()} if self.bilinear else {}
        sides = {"both": model.query_tower}
        if not self.shared:
            sides = {"query": model.query_tower, "title": model.title_tower}
        for side, tower in sides.items():
            for place, machine in enumerate(tower.machines):
                arrays[f"{side}_kernel_{place}"] = machine.kernel.numpy()
                arrays[f"{side}_bias_{place}"] = machine.hidden_bias.numpy()
        return arrays

    def _query_vectors(self, bags: sparse.csr_matrix) -> Vectors:
        vectors = self._unrolled(bags, "query")
        return stable_product(vectors, self._arrays["relation"]) if self.bilinear else vectors

    def _title_vectors(self, bags: sparse.csr_matrix) -> Vectors:
        return self._unrolled(bags, "title")

    def _unrolled(self, bags: sparse.csr_matrix, side: str) -> Vectors:
        """The feed-forward network of `DSETower`, in double precision."""
        side = "both" if self.shared else side
        layers = sum(name.startswith(f"{side}_kernel_") for name in self._arrays)
        below: Any = bags
        for place in range(layers):
            kernel = self._arrays[f"{side}_kernel_{place}"]
            drive = below @ kernel if place == 0 else stable_product(below, kernel)
            drive += self._arrays[f"{side}_bias_{place}"]
            below = expit(drive) if place < layers - 1 else drive
        found: Vectors = np.asarray(below)
        return found
