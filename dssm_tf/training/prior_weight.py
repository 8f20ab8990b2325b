"""Chooses the weight of the titles' log-prior on the validation queries."""

from __future__ import annotations

from typing import Literal

from dssm_tf.model.prior import TitlePrior
from dssm_tf.model.text_scorer import TextScorer, TextScores
from dssm_tf.training.search_settings import choose_cutoff
from dssm_tf.training.validation import Matrix, ValidationTask, score_task

PRIOR_WEIGHTS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.14, 0.2, 0.3)
"""Weights that `auto` tries."""


def tune_prior_weight(
    weight: float | Literal["auto"],
    prior: TitlePrior,
    task: ValidationTask | None,
    scorer: TextScorer,
) -> tuple[float, dict[str, float]]:
    """The weight of the log-prior, and the validation metrics with it.

    Args:
        weight: a fixed weight, or `auto`: the best of `PRIOR_WEIGHTS`; 0 if no title has a click,
            because then all log-priors are equal.
        prior: the log-prior of titles.
        task: the validation queries; if None, `auto` is 0.
        scorer: scores texts without the prior.

    Returns:
        The weight, and the metrics as in `Result.metrics`.
    """
    if task is None:
        return (0.0 if weight == "auto" else weight), {}
    scores = score_task(scorer, task)
    log_prior = prior(task.titles)
    if weight == "auto":
        weight = best_prior_weight(task, scores, log_prior) if prior.log_priors else 0.0
    metrics = task.metrics_with_ci(scores, weight * log_prior)
    metrics |= choose_cutoff(task, scores)
    metrics |= {f"similarity {name}": value for name, value in task.ndcg(scores).items()}
    return weight, metrics | {"queries": float(len(task.queries))}


def best_prior_weight(task: ValidationTask, scores: TextScores, log_prior: Matrix) -> float:
    """The weight with the highest mean of NDCG@1, @3 and @10; the smallest if several tie.

    Args:
        task: the validation queries.
        scores: scores of its queries and titles.
        log_prior: `(titles,)`, in nats.
    """
    values = task.per_query(scores, [weight * log_prior for weight in PRIOR_WEIGHTS])
    return PRIOR_WEIGHTS[int(values.mean(axis=(1, 2)).argmax())]
