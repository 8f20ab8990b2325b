"""DSE and TF-IDF together: meaning and the exact word."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dssm_tf.baselines.base import Click
from dssm_tf.baselines.model_file import Arrays, Settings
from dssm_tf.baselines.old_base import OldBaseline
from dssm_tf.baselines.tfidf import TfIdf
from dssm_tf.dse.rankers import DSE
from dssm_tf.dse.relevance import ClickData, can_be_ranked
from dssm_tf.evaluation.rank_loss import rank_loss

if TYPE_CHECKING:
    from typing_extensions import Self

Floats = NDArray[np.floating[Any]]

WEIGHTS = tuple(np.round(np.linspace(0, 1, 21), 2).tolist())
"""Shares of TF-IDF that validation chooses from."""


def mixed(semantic: Floats, lexical: Floats, spread: float, weight: float) -> Floats:
    """`(1 - weight) * semantic / spread + weight * lexical`.

    `spread` is the standard deviation of semantic scores: a dot product has no scale of its own.
    """
    return (1 - weight) * semantic / spread + weight * lexical


class DSEWithTfIdf(OldBaseline):
    """Scores by DSE and TF-IDF, `mixed`.

    TF-IDF knows every word of the corpus, not only the D most frequent that DSE reads. The
    weight is the one with the least rank loss on the queries DSE held out; where a log is too
    small to hold any out, it is the one given.

    Args:
        weight: share of TF-IDF, from 0 to 1; None has it tuned in `fit`.
        options: see `dssm_tf.dse.rankers.DSE`.

    Reference: Wu et al. 2014, sec. 4.3.
    """

    name = "dse+tfidf"
    free: ClassVar[Mapping[str, Sequence[Any]]] = {"weight": (0.0, 0.25, 0.5, 0.75, 0.9)}

    def __init__(self, *, weight: float | None = None, **options: Any) -> None:
        if weight is not None and not 0 <= weight <= 1:
            raise ValueError(f"{self.name} received weight={weight}; expected 0 <= weight <= 1.")
        self.weight = 0.5 if weight is None else weight
        self.tuned = weight is None
        self.spread = 1.0
        self._dse = DSE(**options)
        self._tfidf = TfIdf()

    @classmethod
    def arguments(cls) -> list[str]:
        """Its own, and those of DSE."""
        return [*super().arguments(), *DSE.arguments()]

    def fit(self, clicks: Iterable[Click], titles: Iterable[str]) -> Self:
        """Fits both and tunes the weight.

        Raises:
            UserError: there is no click, or no word.
        """
        clicks, titles = list(clicks), list(titles)
        self._dse.progress = self.progress
        self._dse.fit(clicks, titles)
        self._tfidf.fit(clicks, titles)
        data = ClickData.of(clicks, titles, self.name)
        chosen, others = data.held_out(self._dse.held_out, self._dse.seed)
        sample = [data.queries[row] for row in (chosen if len(chosen) else others)[:500]]
        spread = float(np.std(self._dse.score_matrix(sample, data.titles)))
        self.spread = spread if spread > 0 else 1.0
        seen = data.clicks[chosen]
        if self.tuned and can_be_ranked(seen):
            queries = [data.queries[row] for row in chosen]
            parts = self._parts(queries, data.titles)

            def loss(weight: float) -> float:
                return rank_loss(mixed(*parts, self.spread, weight), seen)

            self.weight = min(WEIGHTS, key=loss)
        return self

    def score_matrix(self, queries: Sequence[str], titles: Sequence[str]) -> Floats:
        """Scores every title for every query."""
        return mixed(*self._parts(queries, titles), self.spread, self.weight)

    def save(self, directory: Path | str) -> None:
        """Writes both models and `dse+tfidf.npz`, the weight."""
        super().save(directory)
        self._dse.save(directory)
        self._tfidf.save(directory)

    @classmethod
    def load(cls, directory: Path | str) -> Self:
        """Reads what `save` wrote."""
        found = super().load(directory)
        found._dse = DSE.load(directory)
        found._tfidf = TfIdf.load(directory)
        return found

    def _what_is_learned(self) -> tuple[Settings, Arrays]:
        return {"spread": self.spread, "tuned": self.tuned}, {}

    def _restore(self, settings: Settings, arrays: Arrays) -> None:
        self.spread = float(settings["spread"])
        self.tuned = bool(settings["tuned"])
        if not 0 < self.spread < np.inf:
            raise ValueError(f"spread is {self.spread}; expected a number above 0")

    def _parts(self, queries: Sequence[str], titles: Sequence[str]) -> tuple[Floats, Floats]:
        return self._dse.score_matrix(queries, titles), self._tfidf.score_matrix(queries, titles)
