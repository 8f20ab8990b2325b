"""Skip-thought vectors, off the shelf: the cosine of a query and a title."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dssm_tf.baselines.base import Click
from dssm_tf.baselines.old_base import OldBaseline
from dssm_tf.baselines.skip_thought.published_weights import load_vectors, write_vectors
from dssm_tf.baselines.skip_thought.training import TrainingOptions, train
from dssm_tf.evaluation.title_cache import TitleCache

if TYPE_CHECKING:
    from typing_extensions import Self

    from dssm_tf.baselines.skip_thought.vectors import ThoughtVectors, Vectors


class SkipThought(OldBaseline):
    """Scores a title by the cosine of its thought vector and the query's.

    With `weights` nothing is learned: `fit` only loads, as the paper does with the published
    combine-skip vectors. Without, `fit` trains on the log. Skip-thought wants contiguous text,
    which queries and titles are not; what follows what is taken to be

        title, title, query 1, query 1, title, title, query 2, query 2, ..., title, title

    for each title with the distinct queries it was clicked for, in the order of the log. So each
    text stands beside itself, which keeps its words in its vector, and beside a text that it was
    clicked with, which brings the two together.
    Without clicks the titles of the corpus are one passage, in its order: a makeshift.

    Args:
        weights: directory of published weights or of `dssm skip-thought train`.
        kind: `uni`, `bi` or `combine`; None takes all that `weights` has, and trains `uni`.
        units: size of the uni-skip vector and of the bi-skip vector, when trained.
        word_units: size of the word vectors, when trained.
        vocabulary: most frequent words that are known, when trained.
        predicted: most frequent words that the decoders tell apart, when trained.
        epochs: passes over the log, when trained.
        learning_rate: of Adam, when trained.
        max_steps: training steps at most, a minute or two on a log of any size; None for all.
        seed: of the first weights and the order of batches.
        progress: whether to show a bar on standard error while training.

    Reference: Palangi et al. 2016, sec. V-B and table IV; Kiros et al. 2015.
    """

    name = "skip_thought"

    def __init__(
        self,
        weights: Path | str | None = None,
        kind: str | None = None,
        units: int = 300,
        word_units: int = 300,
        vocabulary: int = 5000,
        predicted: int = 5000,
        epochs: int = 2,
        learning_rate: float = 3e-3,
        max_steps: int | None = 300,
        seed: int = 0,
        progress: bool = False,
    ) -> None:
        self.weights = None if weights is None else Path(weights)
        self.kind = kind
        self.units = units
        self.word_units = word_units
        self.vocabulary = vocabulary
        self.predicted = predicted
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.max_steps = max_steps
        self.seed = seed
        self._options()  # refuses what means nothing
        self.progress = progress
        self._titles: TitleCache[tuple[Vectors, NDArray[np.intp]]] = TitleCache()
        self._encode: ThoughtVectors | None = None

    def fit(self, clicks: Iterable[Click], titles: Iterable[str]) -> Self:
        """Loads the weights, or trains on the log."""
        self._titles = TitleCache()
        if self.weights is not None:
            self._encode = load_vectors(self.weights, self.kind)
            return self
        from rich.console import Console

        progress = Console(stderr=True) if self.progress is True else self.progress or None
        self._encode, _ = train(_passages(clicks, titles), self._options(), progress)
        return self

    def score_matrix(self, queries: Sequence[str], titles: Sequence[str]) -> NDArray[np.float32]:
        """Cosines of every query and title; a text without a known word has 0 everywhere."""
        vectors, shared = self._titles.get(titles, self._title_vectors)
        # Products in double precision, rounded to single: the order of the sum, which depends on
        # the shape of the matrices, is below what is kept.
        cosines = self._vectors(queries).astype(np.float64) @ vectors.astype(np.float64).T
        scores: NDArray[np.float32] = cosines.astype(np.float32)[:, shared]
        return scores

    def save(self, directory: Path | str) -> None:
        """Writes the encoders in the published layout, options as JSON."""
        write_vectors(Path(directory), self._fitted())

    @classmethod
    def load(cls, directory: Path | str) -> Self:
        """Reads what `save` or `dssm skip-thought train` wrote, or published weights."""
        return cls(weights=directory).fit([], [])

    def _options(self) -> TrainingOptions:
        own = {field.name for field in fields(TrainingOptions)} - {"kind"}
        given = {name: value for name, value in self._parameters().items() if name in own}
        return TrainingOptions(self.kind or "uni", **given)

    def _title_vectors(self, titles: Sequence[str]) -> tuple[Vectors, NDArray[np.intp]]:
        """Vectors of the distinct normal forms, and the place of each title's among them."""
        distinct, shared = self._fitted().rules.distinct(titles)
        return self._vectors(distinct), shared

    def _vectors(self, texts: Sequence[str]) -> Vectors:
        return self._fitted()(texts)

    def _fitted(self) -> ThoughtVectors:
        if self._encode is None:
            raise ValueError("SkipThought scores after `fit` or `load`; neither was called.")
        return self._encode


def _passages(clicks: Iterable[Click], titles: Iterable[str]) -> list[list[str]]:
    """The log as contiguous text, see `SkipThought`."""
    asked: dict[str, dict[str, None]] = {}
    for query, title, _ in clicks:
        asked.setdefault(title, {})[query] = None
    passages = [
        [title, title, *(text for query in queries for text in (query, query, title, title))]
        for title, queries in asked.items()
    ]
    return passages or [list(titles)]
