"""Explains why a title matches a query, for any model."""

from __future__ import annotations

from typing import Any

from dssm_tf.analysis.match_explanation import MatchExplanation, explain_matches
from dssm_tf.analysis.shapley_explanation import ShapleyExplanation, explain_words
from dssm_tf.common.errors import UserError
from dssm_tf.runtime.maxsim_ranker import MaxSimRanker
from dssm_tf.runtime.trained_ranker import TrainedRanker
from dssm_tf.runtime.vector_ranker import VectorRanker

Explanation = MatchExplanation | ShapleyExplanation
"""Both have `name`, `query`, `title`, `similarity`, `prior` and `score`, sentences and JSON."""


def explain(ranker: Any, query: str, title: str) -> Explanation:
    """Explains the score of a query and a title, for any model.

    A model with the score maxsim compares words, so its score has exact parts: a
    `MatchExplanation`. Other scores are explained by the Shapley values of the words of both texts:
    a `ShapleyExplanation`. Both have `name`, `score`, `prior`, `sentences()` and `to_json()`.

    Args:
        ranker: a run, an export, a compact model or anything else that scores titles.
        query: raw text.
        title: raw text.

    Raises:
        UserError: a text has no word; the model gives one vector per text, and its vocabulary has
            no letter n-gram of a text; or the model is a SavedModel with the score maxsim.
    """
    if isinstance(ranker, MaxSimRanker):
        return explain_matches(ranker, query, title)
    if isinstance(ranker, TrainedRanker) and not isinstance(ranker, VectorRanker):
        raise UserError(
            f"{ranker.name} is a SavedModel with the score maxsim, which does not return the parts "
            "of a score; explain the run, or its compact model (dssm export --format compact)."
        )
    return explain_words(ranker, query, title)
