"""DSE and TF-IDF together: meaning and the exact word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from dssm_tf.baselines.base import Click, Floats, Grid, Share
from dssm_tf.baselines.terms import Terms
from dssm_tf.baselines.tfidf import TfIdf
from dssm_tf.dse.click_matrix import ClickMatrix, can_be_ranked
from dssm_tf.dse.rank_loss import rank_loss
from dssm_tf.dse.rankers import DSE

WEIGHTS = tuple(np.round(np.linspace(0, 1, 21), 2).tolist())
"""Shares of TF-IDF that validation chooses from."""


class DSEWithTfIdf(DSE):
    """Scores by `(1 - weight) * DSE / scale + weight * TF-IDF`, two fitted rankers.

    TF-IDF knows every word of the corpus, not only the D most frequent that DSE reads. The
    weight is the one with the least rank loss on the queries DSE held out; one half for a log too
    small to hold any out.

    Args:
        weight: share of TF-IDF; None has it tuned in `fit`.

    Attributes:
        scale: standard deviation of DSE's scores: a dot product has no scale of its own.
        tuned: the weight that the held-out queries chose.

    Reference: Wu et al. 2014, sec. 4.3.
    """

    name = "dse+tfidf"
    weight: Annotated[Share | None, Grid((0.0, 0.25, 0.5, 0.75, 0.9))] = None

    scale: float
    tuned: float
    terms: Terms
    title_idf: Floats

    def _learn(self, clicks: list[Click], titles: list[str]) -> None:
        super()._learn(clicks, titles)
        tfidf = TfIdf().fit(clicks, titles)
        self.terms, self.title_idf = tfidf.terms, tfidf.idf
        self._index()
        data = ClickMatrix.of(clicks, titles, self.name)
        prepared = self._prepare(tuple(data.titles))
        chosen, others = data.held_out(self.held_out, self.seed)
        sample = [data.queries[row] for row in (chosen if len(chosen) else others)[:500]]
        self.scale = float(np.std(self._parts(sample, prepared)[0])) or 1.0
        self.tuned, held = 0.5, data.clicks[chosen]
        if self.weight is None and can_be_ranked(held):
            parts = self._parts([data.queries[row] for row in chosen], prepared)
            self.tuned = min(WEIGHTS, key=lambda weight: rank_loss(self._mix(*parts, weight), held))

    def _index(self) -> None:
        super()._index()
        self._tfidf = TfIdf()
        self._tfidf.terms, self._tfidf.idf = self.terms, self.title_idf

    def _prepare(self, titles: tuple[str, ...]) -> Any:
        return super()._prepare(titles), self._tfidf._prepare(titles)

    def _score(self, queries: Sequence[str], prepared: Any) -> Floats:
        weight = self.tuned if self.weight is None else self.weight
        return self._mix(*self._parts(queries, prepared), weight)

    def _parts(self, queries: Sequence[str], prepared: Any) -> tuple[Floats, Floats]:
        semantic, lexical = prepared
        return super()._score(queries, semantic), self._tfidf._score(queries, lexical)

    def _mix(self, semantic: Floats, lexical: Floats, weight: float) -> Floats:
        return (1 - weight) * semantic / self.scale + weight * lexical
