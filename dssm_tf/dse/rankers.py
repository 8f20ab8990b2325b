"""`dse`, `ssi` and `psi` as rows of the benchmark: trained on clicks, scoring without Keras."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit

from dssm_tf.baselines.base import Baseline, Click
from dssm_tf.baselines.model_file import Arrays, Settings
from dssm_tf.baselines.stable_product import stable_product
from dssm_tf.common.progress import progress_of
from dssm_tf.dse.bag_of_words import BagOfWords
from dssm_tf.dse.relevance import ClickData, can_be_ranked
from dssm_tf.evaluation.title_cache import TitleCache

if TYPE_CHECKING:
    from typing_extensions import Self

    from dssm_tf.dse.networks import BagPair

Vectors = NDArray[np.float64]

OPTIMIZERS = ("adam", "sgd")

DIMENSION = 100
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

    Raises:
        ValueError: an argument is outside of its range.

    Reference: Wu et al. 2014.
    """

    normalization = "length"
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
        if steps < 1 or batch_size < 2 or not learning_rate > 0:
            raise ValueError(
                f"{self.name} received steps={steps}, batch_size={batch_size}, "
                f"learning_rate={learning_rate}; expected at least 1, at least 2, above 0."
            )
        if optimizer not in OPTIMIZERS:
            raise ValueError(
                f"{self.name} received optimizer={optimizer!r}; expected one of "
                f"{', '.join(OPTIMIZERS)}."
            )
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
        self._bag = BagOfWords(size, weighting=weighting, normalization=self.normalization)

    def fit(self, clicks: Iterable[Click], titles: Iterable[str]) -> Self:
        """Learns from the clicks; the titles add words and are their own queries.

        Raises:
            UserError: there is no click, no word, or C exceeds the number of words.
        """
        from dssm_tf.dse.fine_tuning import FineTuning, LinkTask, fine_tune

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
        settings = FineTuning(
            self.steps, self.learning_rate, self.optimizer, batch_size=self.batch_size
        )
        steps = self._pretraining_steps(model) + self.steps
        with progress_of(self.name, steps, self.progress) as bar:

            def told(state: str) -> None:
                bar.advance(1, state)

            self._pretrain(model, queries, answers, told)
            fine_tune(model, task, settings, seed=self.seed, told=told)
        self._arrays = {
            name: np.asarray(value, dtype=np.float64) for name, value in self._export(model).items()
        }
        return self._ready()

    @abc.abstractmethod
    def _make(self, words: int, dimension: int) -> BagPair:
        """The untrained pair model."""

    def _pretraining_steps(self, model: BagPair) -> int:
        return 0

    def _pretrain(
        self,
        model: BagPair,
        queries: sparse.csr_matrix,
        titles: sparse.csr_matrix,
        told: Callable[[str], None],
    ) -> None:
        """What comes before the clicks: nothing, except for DSE."""

    def _export(self, model: BagPair) -> Mapping[str, NDArray[Any]]:
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

    def _learned(self) -> tuple[Settings, Arrays]:
        return {"bag": self._bag.to_json()}, self._arrays

    def _restore(self, settings: Settings, arrays: Arrays) -> None:
        self._bag = BagOfWords.from_json(settings["bag"])
        self._arrays = dict(arrays)
        self._ready()

    def _ready(self) -> Self:
        self._titles: TitleCache[tuple[sparse.csr_matrix, Vectors]] = TitleCache()
        return self


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

    def _title_vectors(self, bags: sparse.csr_matrix) -> Vectors:
        vectors: Vectors = bags @ self._arrays["embedding"]
        return vectors


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
        if pretraining_steps < 0:
            raise ValueError(
                f"dse received pretraining_steps={pretraining_steps}; expected 0 or more."
            )
        self.shared = shared
        self.bilinear = bilinear
        self.pretraining_steps = pretraining_steps

    def _make(self, words: int, dimension: int) -> BagPair:
        from dssm_tf.dse.networks import DSEPair

        return DSEPair(words, dimension, self.shared, self.bilinear, seed=self.seed)

    def _pretraining_steps(self, model: BagPair) -> int:
        return self.pretraining_steps * sum(
            len(tower.machines) for tower in self._towers(model).values()
        )

    def _pretrain(
        self,
        model: BagPair,
        queries: sparse.csr_matrix,
        titles: sparse.csr_matrix,
        told: Callable[[str], None],
    ) -> None:
        from dssm_tf.dse.pretraining import Pretraining, pretrain

        settings = Pretraining(self.pretraining_steps)
        bags = [sparse.vstack([queries, titles]).tocsr()] if self.shared else [queries, titles]
        for tower, part in zip(self._towers(model).values(), bags, strict=True):
            pretrain(tower, part, settings, seed=self.seed, told=told)

    def _export(self, model: BagPair) -> Mapping[str, NDArray[Any]]:
        arrays = {}
        for side, tower in self._towers(model).items():
            for place, machine in enumerate(tower.machines):
                arrays[f"{side}_kernel_{place}"] = machine.kernel.numpy()
                arrays[f"{side}_bias_{place}"] = machine.hidden_bias.numpy()
        if self.bilinear:
            arrays["relation"] = model.relation.numpy()
        return arrays

    def _towers(self, model: BagPair) -> dict[str, Any]:
        if self.shared:
            return {"both": model.query_tower}
        return {"query": model.query_tower, "title": model.title_tower}

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
