"""Chooses the cut-off of `dssm search` on the validation queries."""

from __future__ import annotations

import numpy as np

from dssm_tf.evaluation.ranking import top_columns
from dssm_tf.model.text_scorer import TextScores
from dssm_tf.training.validation import Matrix, ValidationTask

_BATCH_SIZE = 16  # queries scored at once
_MIN_QUERIES = 40  # their 5th percentile has two queries below it
_CUTOFF_PERCENTILE = 5  # percent of good first results below the cut-off


def choose_cutoff(
    task: ValidationTask, scores: TextScores, bonus: Matrix | float
) -> dict[str, float]:
    """Chooses the setting `cutoff`, if there are enough queries.

    The cut-off is the 5th percentile of the first title's score, over the queries whose first title
    has a grade: 1 of 20 good first titles is below it. How many bad first titles are below it
    depends on the queries and is not measured here. The score does not include the prior, because
    popularity does not make an irrelevant title relevant.

    Args:
        task: the validation queries.
        scores: scores of its queries and titles, without the prior.
        bonus: weighted log-priors of its titles, `(titles,)`.

    Returns:
        `cutoff`, or nothing.
    """
    good = []
    for start in range(0, len(task.queries), _BATCH_SIZE):
        block = slice(start, start + _BATCH_SIZE)
        plain = scores.scores(block)
        ranked = task.mask_unranked(plain + bonus, block)
        for row, values in enumerate(ranked):
            first = top_columns(values, 1)
            if np.isin(first, task.grades[[start + row]].indices).all():
                good.append(float(plain[row, first[0]]))
    if len(good) < _MIN_QUERIES:
        return {}
    return {"cutoff": float(np.percentile(good, _CUTOFF_PERCENTILE))}
