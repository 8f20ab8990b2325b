"""What `dse`, `ssi` and `psi` share: bags of words, training on clicks, stable scores."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.baselines.base import Baseline, Click
from dssm_tf.baselines.model_file import broken, read_model, write_model
from dssm_tf.baselines.stable_product import stable_product
from dssm_tf.baselines.title_cache import TitleCache
from dssm_tf.common.errors import UserError
from dssm_tf.common.progress import progress_of
from dssm_tf.dse.bag_of_words import BagOfWords
from dssm_tf.text.normalize import normalize

if TYPE_CHECKING:
    from typing_extensions import Self

    from dssm_tf.dse.networks.bag_pair import BagPair

Arrays = Mapping[str, NDArray[np.float64]]
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
        progress: whether a bar is shown on the error stream.

    Raises:
        ValueError: an argument is outside of its range.

    Reference: Wu et al. 2014.
    """

    normalization = "length"

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
        progress: bool = False,
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
        self.dimension = dimension
        self.steps = steps
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.title_queries = title_queries
        self.held_out = held_out
        self.seed = seed
        self.progress = progress
        self._bag = BagOfWords(size, weighting=weighting, normalization=self.normalization)

    def fit(self, clicks: Iterable[Click], titles: Iterable[str]) -> Self:
        """Learns from the clicks; the titles add words and are their own queries.

        Raises:
            UserError: there is no click, no word, or C exceeds the number of words.
        """
        data = ClickData.of(clicks, titles, self.name)
        self._bag.fit([*data.titles, *data.queries])
        number = len(self._bag.words)
        dimension = min(DIMENSION, number) if self.dimension is None else self.dimension
        if dimension > number:
            raise UserError(
                f"{self.name} shall embed in {dimension} dimensions what has {number} words; "
                "lower dimension, or give more text."
            )
        model = self._train(data, dimension)
        self._arrays = {
            name: np.asarray(value, dtype=np.float64) for name, value in self._export(model).items()
        }
        return self._ready()

    @abc.abstractmethod
    def _make(self, words: int, dimension: int) -> BagPair:
        """The untrained pair model."""

    def _pretrain(self, model: BagPair, bags: Sequence[sparse.csr_matrix], advance: Any) -> None:
        """What comes before the clicks: nothing, except for DSE."""

    def _pretraining_steps(self, model: BagPair) -> int:
        return 0

    @abc.abstractmethod
    def _export(self, model: BagPair) -> Mapping[str, NDArray[Any]]:
        """The trained weights by name."""

    @abc.abstractmethod
    def _query_vectors(self, bags: sparse.csr_matrix, arrays: Arrays) -> Vectors:
        """Vectors of queries, `(queries, length)`, zero for one without a known word."""

    @abc.abstractmethod
    def _title_vectors(self, bags: sparse.csr_matrix, arrays: Arrays) -> Vectors:
        """Vectors of titles, `(titles, length)`."""

    def score(self, query: str, titles: Sequence[str]) -> NDArray[np.float64]:
        """Scores titles for one query: `(len(titles),)`."""
        row: NDArray[np.float64] = self.score_matrix([query], titles)[0]
        return row

    def score_matrix(self, queries: Sequence[str], titles: Sequence[str]) -> NDArray[np.float64]:
        """Scores every title for every query by one product of their vectors."""
        bags, vectors = self._titles.get(titles, self._encode_titles)
        asked = self._bag.transform(queries).astype(np.float64)
        own = self._query_vectors(asked, self._arrays)
        own[np.diff(asked.indptr) == 0] = 0
        scores = stable_product(own, vectors)
        return scores + (asked @ bags).toarray() if self._words_count else scores

    _words_count = True
    """Whether the words themselves score beside their embeddings, the I of SSI."""

    def save(self, directory: Path | str) -> None:
        """Writes `NAME.npz`: words, settings and weights."""
        settings = {"bag": self._bag.to_json(), "arguments": self._arguments()}
        write_model(directory, self.name, settings, self._arrays)

    @classmethod
    def load(cls, directory: Path | str) -> Self:
        """Reads what `save` wrote."""
        settings, arrays = read_model(directory, cls.name)
        try:
            found = cls(**settings["arguments"])
            found._bag = BagOfWords.from_json(settings["bag"])
            found._arrays = dict(arrays)
            return found._ready()
        except (ValueError, KeyError, TypeError) as error:
            raise broken(Path(directory) / f"{cls.name}.npz", cls.name, error) from error

    def _arguments(self) -> dict[str, Any]:
        return {
            "size": self._bag.size,
            "dimension": self.dimension,
            "weighting": self._bag.weighting,
            "steps": self.steps,
            "batch_size": self.batch_size,
            "optimizer": self.optimizer,
            "learning_rate": self.learning_rate,
            "title_queries": self.title_queries,
            "held_out": self.held_out,
            "seed": self.seed,
        }

    def _ready(self) -> Self:
        self._titles: TitleCache[tuple[sparse.csr_matrix, Vectors]] = TitleCache()
        return self

    def _encode_titles(self, titles: Sequence[str]) -> tuple[sparse.csr_matrix, Vectors]:
        bags = self._bag.transform(titles).astype(np.float64)
        vectors = np.ascontiguousarray(self._title_vectors(bags, self._arrays).T)
        return bags.T.tocsr(), vectors

    def _train(self, data: ClickData, dimension: int) -> BagPair:
        from dssm_tf.dse.margin_training import FineTuning, encode, fine_tune
        from dssm_tf.dse.relevance import TupleBatches
        from dssm_tf.evaluation.rank_loss import rank_loss

        model = self._make(len(self._bag.words), dimension)
        queries, titles = self._bag.transform(data.queries), self._bag.transform(data.titles)
        chosen, others = data.held_out(self.held_out, self.seed)
        relevant, known, weights = data.training(others, self.title_queries)
        batches = TupleBatches(
            relevant, known, batch_size=self.batch_size, weights=weights, seed=self.seed
        )
        settings = FineTuning(
            steps=self.steps, learning_rate=self.learning_rate, optimizer=self.optimizer
        )
        seen = data.clicks[chosen]

        def check() -> float:
            asked = encode(model.query_vectors, queries[chosen])
            answers = encode(model.title_vectors, titles)
            return rank_loss(lambda rows: asked[rows] @ answers.T, seen)

        before = self._pretraining_steps(model)
        with progress_of(self.name, before + self.steps, self.progress) as task:
            self._pretrain(model, (queries, titles), task.update)
            fine_tune(
                model,
                sparse.vstack([queries, titles]).tocsr(),
                titles,
                batches,
                settings,
                check=check if seen.nnz and seen.shape[1] > 1 else None,
                advance=lambda done, state: task.update(before + done, state),
            )
        return model


class ClickData:
    """Distinct texts of a log and its clicks as a matrix.

    Args:
        queries: distinct normalised queries, in order of first click.
        titles: distinct titles: those of the corpus, then clicked ones it lacks.
        clicks: float64 `(queries, titles)`, how often each title was clicked for each query.
    """

    def __init__(
        self, queries: Sequence[str], titles: Sequence[str], clicks: sparse.csr_matrix
    ) -> None:
        self.queries = queries
        self.titles = titles
        self.clicks = clicks

    @classmethod
    def of(cls, clicks: Iterable[Click], titles: Iterable[str], name: str) -> ClickData:
        """Collects a log.

        Raises:
            UserError: no click has both a query and a title of words.
        """
        asked: dict[str, int] = {}
        known: dict[str, int] = {}
        for title in titles:
            known.setdefault(normalize(title), len(known))
        rows, columns, counts = [], [], []
        for query, title, count in clicks:
            words = normalize(query)
            if words and normalize(title) and count > 0:
                rows.append(asked.setdefault(words, len(asked)))
                columns.append(known.setdefault(normalize(title), len(known)))
                counts.append(count)
        if not rows:
            raise UserError(
                f"{name} got no click with words in query and title; it learns from clicks."
            )
        table = sparse.csr_matrix((counts, (rows, columns)), (len(asked), len(known)))
        return cls(list(asked), list(known), table.astype(np.float64))

    def held_out(self, share: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Numbers of the held-out queries and of the others; a share that is no query is none."""
        order = np.random.default_rng(seed).permutation(len(self.queries))
        cut = int(share * len(order))
        return np.sort(order[:cut]), np.sort(order[cut:])

    def training(
        self, rows: NDArray[np.int64], title_queries: float
    ) -> tuple[sparse.csr_matrix, sparse.csr_matrix, NDArray[np.float64]]:
        """Clicks of some queries, and titles as queries below them.

        Args:
            rows: the queries to learn from.
            title_queries: share of the draws that a title as its own query gets.

        Returns:
            Links to draw from and what is known to be relevant, bool `(queries + titles,
            titles)`, and the weight of each link.
        """
        learned = sparse.csr_matrix(
            (np.ones(len(rows)), (rows, rows)), (len(self.queries), len(self.queries))
        )
        clicks = (learned @ self.clicks).tocsr()
        clicks.eliminate_zeros()
        clicks.data /= clicks.data.sum()
        with_words = np.array([1.0 if title else 0.0 for title in self.titles])
        own = sparse.diags(with_words / with_words.sum()).tocsr()
        own.eliminate_zeros()
        links = sparse.vstack([(1 - title_queries) * clicks, title_queries * own]).tocsr()
        links.eliminate_zeros()
        # A held-out click must not serve as an irrelevant title, which it is known not to be.
        known = sparse.vstack([self.clicks > 0, own > 0]).tocsr()
        return links.astype(bool), known, links.data
