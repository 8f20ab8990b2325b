"""Scores of judged pairs beside their grades, of several models (P16, supplement C)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.tables.judgments import Judgment

_MOST_GRADES = 7  # with more, a grade is shown under its whole part
_SHOWN = 3  # pairs of a grade


class Graded(NamedTuple):
    """Judged pairs with their scores.

    Attributes:
        pairs: the judgments.
        scores: cosines by model, `(pairs,)`.
    """

    pairs: Sequence[Judgment]
    scores: Mapping[str, NDArray[np.float64]]

    @property
    def grades(self) -> NDArray[np.float64]:
        """Of the pairs."""
        return np.array([pair.grade for pair in self.pairs], np.float64)

    def spearman(self) -> dict[str, float]:
        """Spearman's rank correlation of scores and grades by model, if neither is constant."""
        grades = self.grades
        return {
            model: float(stats.spearmanr(scores, grades).statistic)
            for model, scores in self.scores.items()
            if np.ptp(scores) and np.ptp(grades)
        }

    def examples(self, number: int = _SHOWN) -> list[int]:
        """Some pairs of each grade, highest first; sampled, and the same ones each time."""
        grades = self.grades
        if len(np.unique(grades)) > _MOST_GRADES:
            grades = np.floor(grades)
        order = np.random.default_rng(0).permutation(len(self.pairs))
        return [int(i) for grade in np.unique(grades)[::-1]
                for i in order[grades[order] == grade][:number]]  # fmt: skip


def graded(rankers: Mapping[str, SemanticRanker], judgments: Sequence[Judgment]) -> Graded:
    """Cosines of judged pairs, which the paper calls scores.

    Args:
        rankers: the models by name.
        judgments: at least one.

    Reference: Palangi et al. 2016, supplement C.
    """
    scores = {}
    for name, ranker in rankers.items():
        queries = ranker.encode_queries([pair.query for pair in judgments])
        titles = ranker.encode_titles([pair.title for pair in judgments])
        scores[name] = np.einsum("pd,pd->p", queries, titles).astype(np.float64)
    return Graded(judgments, scores)
