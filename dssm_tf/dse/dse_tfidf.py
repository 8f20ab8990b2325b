"""A weighted sum of the scores of DSE and TF-IDF."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from pydantic import Field

from dssm_tf.baselines.base import Click, Floats, LearnedShapes, SearchSpace
from dssm_tf.baselines.tfidf import TfIdf, TfIdfStatistics
from dssm_tf.common.field_types import Fraction
from dssm_tf.dse.click_matrix import ClickMatrix, has_pairs
from dssm_tf.dse.rank_loss import rank_loss
from dssm_tf.dse.rankers import DSE, BagWeights

TFIDF_WEIGHTS = tuple(np.round(np.linspace(0, 1, 21), 2).tolist())
"""Weights of TF-IDF that validation chooses from."""


@dataclass(frozen=True, eq=False)
class DSEWithTfIdfWeights(BagWeights):
    """A trained DSE model and TF-IDF statistics.

    Attributes:
        words: see `BagWeights`.
        idf: see `BagWeights`.
        matrices: see `BagWeights`.
        tfidf: statistics of the corpus.
        scale: standard deviation of DSE's scores, which divides them: dot products have any scale.
        tuned_weight: the weight chosen on the validation queries.
    """

    tfidf: TfIdfStatistics
    scale: float
    tuned_weight: float


class DSEWithTfIdf(DSE):
    """Scores by `(1 - w) * DSE / scale + w * TF-IDF`, two fitted rankers.

    TF-IDF reads every word of the corpus, not only the D most frequent that DSE reads. By default,
    `w` is the value with the least rank loss on the validation queries of DSE, or 0.5 if the log is
    too small to have any.

    Reference: Wu et al. 2014, sec. 4.3.
    """

    name = "dse+tfidf"
    learned_type = DSEWithTfIdfWeights
    learned_shapes: ClassVar[LearnedShapes] = {"idf": ("words",), "tfidf/idf": ("terms",)}
    search_space: ClassVar[SearchSpace] = {"tfidf_weight": (0.0, 0.25, 0.5, 0.75, 0.9)}

    tfidf_weight: Fraction | None = Field(
        default=None, description="Weight of TF-IDF; by default `fit` chooses it."
    )

    @property
    def learned(self) -> DSEWithTfIdfWeights:
        """What `fit` learned."""
        return cast(DSEWithTfIdfWeights, super().learned)

    def _fit(self, clicks: list[Click], titles: list[str]) -> DSEWithTfIdfWeights:
        data = ClickMatrix.from_clicks(clicks, titles, self.name)
        dse = DSE(**{name: getattr(self, name) for name in DSE.model_fields})
        dse.fit(clicks, titles, progress=self._show_progress)
        tfidf = TfIdf().fit(clicks, titles)

        def scores(queries: Sequence[str]) -> tuple[Floats, Floats]:
            semantic = dse.score_matrix(queries, data.titles)
            return np.asarray(semantic), np.asarray(tfidf.score_matrix(queries, data.titles))

        rows, training_rows = data.split_queries(self.validation_fraction, self.seed)
        sample = [data.queries[row] for row in (rows if len(rows) else training_rows)[:500]]
        scale = float(np.std(scores(sample)[0])) or 1.0
        tuned_weight, validation = 0.5, data.clicks[rows]
        if self.tfidf_weight is None and has_pairs(validation):
            semantic, lexical = scores([data.queries[row] for row in rows])
            tuned_weight = min(
                TFIDF_WEIGHTS,
                key=lambda weight: rank_loss(_mix(semantic, lexical, scale, weight), validation),
            )
        weights = dse.learned
        return DSEWithTfIdfWeights(
            weights.words, weights.idf, weights.matrices, tfidf.learned, scale, tuned_weight
        )

    def _encode_titles(self, titles: tuple[str, ...]) -> Any:
        lexical = self.learned.tfidf.vectors(titles).T.tocsr()
        return super()._encode_titles(titles), lexical

    def _score(self, queries: Sequence[str], encoded: Any) -> Floats:
        semantic, lexical = encoded
        weight = self.learned.tuned_weight if self.tfidf_weight is None else self.tfidf_weight
        cosines = (self.learned.tfidf.vectors(queries) @ lexical).toarray()
        return _mix(super()._score(queries, semantic), cosines, self.learned.scale, weight)


def _mix(semantic: Floats, lexical: Floats, scale: float, weight: float) -> Floats:
    return (1 - weight) * semantic / scale + weight * lexical
