"""Chooses the cutoff of `dssm_tf.runtime.good_match` on the validation queries."""

from __future__ import annotations

import numpy as np

from dssm_tf.evaluation.ranking import top_columns
from dssm_tf.model.text_scorer import TextScores
from dssm_tf.training.validation import ValidationTask

_BATCH_SIZE = 16  # queries scored at once
_MIN_GOOD = 40  # good first titles; 5 % of them are two
_CUTOFF_PERCENTILE = 5  # percent of good first results below the cutoff


def choose_cutoff(task: ValidationTask, scores: TextScores) -> dict[str, float]:
    """Chooses the setting `cutoff`, if there are enough queries.

    Consider the queries whose most similar title has a grade above 0. The cutoff is the 5th
    percentile of the similarities of these titles, so 1 of 20 good titles is below it. The number
    of poor titles below it depends on the queries and is not measured here. The similarity excludes
    the prior: a popular title is clicked for many queries that it does not match.

    Args:
        task: the validation queries.
        scores: scores of its queries and titles, without the prior.

    Returns:
        A dictionary with the key `cutoff`; empty if fewer than `_MIN_GOOD` queries have a good
        first title.
    """
    good_similarities = []
    for start in range(0, len(task.queries), _BATCH_SIZE):
        block = slice(start, start + _BATCH_SIZE)
        similarities = scores.scores(block)
        ranked = task.mask_unranked(similarities, block)
        for row, values in enumerate(ranked):
            best = top_columns(values, 1)
            if np.isin(best, task.grades[[start + row]].indices).all():
                good_similarities.append(float(similarities[row, best[0]]))
    if len(good_similarities) < _MIN_GOOD:
        return {}
    return {"cutoff": float(np.percentile(good_similarities, _CUTOFF_PERCENTILE))}
