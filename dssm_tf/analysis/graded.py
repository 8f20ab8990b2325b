"""Scores of judged pairs beside their grades, of several models (P16, supplement C)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf.analysis.observations import agreement
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.tables.judgments import Judgment

_MOST_PAIRS = 20_000
_MOST_GRADES = 7  # with more, a grade stands for its whole part
_SHOWN = 3  # pairs of a grade


class Graded(NamedTuple):
    """Judged pairs with their scores.

    Attributes:
        pairs: the judgments, at most `_MOST_PAIRS` of them, drawn by lot where there are more.
        scores: cosines by model, `(pairs,)`.
        labels: the grade of each pair, the whole part where there are many grades.
        drawn_from: how many judgments there are.
    """

    pairs: Sequence[Judgment]
    scores: Mapping[str, NDArray[np.float64]]
    labels: NDArray[np.float64]
    drawn_from: int

    @property
    def grades(self) -> list[float]:
        """The labels, highest first."""
        return sorted({float(label) for label in self.labels}, reverse=True)

    def quartiles(self, model: str, grade: float) -> NDArray[np.float64]:
        """Of a model's scores of a grade's pairs: quarter, middle, three quarters."""
        of_grade = self.scores[model][self.labels == grade]
        return np.asarray(np.percentile(of_grade, (25, 50, 75)))

    def agreement(self, model: str) -> float:
        """Spearman's rank correlation of scores and grades, see `observations.agreement`."""
        grades = np.array([pair.grade for pair in self.pairs])
        return agreement(self.scores[model], grades).spearman

    def examples(self, number: int = _SHOWN) -> list[int]:
        """Pairs to look at, some of each grade, drawn by lot and the same ones each time."""
        order = np.random.default_rng(0).permutation(len(self.pairs))
        return [int(i) for grade in self.grades
                for i in order[self.labels[order] == grade][:number]]  # fmt: skip


def graded(
    rankers: Mapping[str, SemanticRanker], judgments: Sequence[Judgment], most: int = _MOST_PAIRS
) -> Graded:
    """Cosines of judged pairs, which the paper calls scores.

    Args:
        rankers: the models by name.
        judgments: at least one.
        most: pairs to look at.

    Reference: Palangi et al. 2016, supplement C.
    """
    pairs = list(judgments)
    if len(pairs) > most:
        chosen = np.random.default_rng(0).choice(len(pairs), most, replace=False)
        pairs = [pairs[i] for i in np.sort(chosen)]
    scores = {}
    for name, ranker in rankers.items():
        queries = ranker.encode_queries([pair.query for pair in pairs])
        titles = ranker.encode_titles([pair.title for pair in pairs])
        scores[name] = np.einsum("pd,pd->p", queries, titles).astype(np.float64)
    grades = np.array([pair.grade for pair in pairs])
    labels = np.floor(grades) if len(set(grades)) > _MOST_GRADES else grades
    return Graded(pairs, scores, labels, len(judgments))
