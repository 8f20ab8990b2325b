"""Chooses the cut-off of `dssm search` on the validation queries."""

from __future__ import annotations

import numpy as np

from dssm_tf.evaluation.ranking import top_columns
from dssm_tf.model.text_scorer import TextScores
from dssm_tf.training.validation import ValidationTask

_BATCH_SIZE = 16  # queries scored at once
_MIN_QUERIES = 40  # their 5th percentile has two queries below it
_CUTOFF_PERCENTILE = 5  # percent of good first results below the cut-off


def choose_cutoff(task: ValidationTask, scores: TextScores) -> dict[str, float]:
    """Chooses the setting `cutoff`, if there are enough queries.

    The cut-off is the 5th percentile of the score of the most similar title, over the queries whose
    most similar title has a grade: 1 of 20 such titles is below it. How many titles that are not
    good are below it depends on the queries and is not measured here. Neither the score nor the
    choice of the title includes the prior: a popular title is clicked for many queries that it does
    not match.

    Args:
        task: the validation queries.
        scores: scores of its queries and titles, without the prior.

    Returns:
        `cutoff`, or nothing.
    """
    good = []
    for start in range(0, len(task.queries), _BATCH_SIZE):
        block = slice(start, start + _BATCH_SIZE)
        plain = scores.scores(block)
        ranked = task.mask_unranked(plain, block)
        for row, values in enumerate(ranked):
            first = top_columns(values, 1)
            if np.isin(first, task.grades[[start + row]].indices).all():
                good.append(float(plain[row, first[0]]))
    if len(good) < _MIN_QUERIES:
        return {}
    return {"cutoff": float(np.percentile(good, _CUTOFF_PERCENTILE))}
