"""A Keras callback that ranks the validation queries after each epoch."""

from __future__ import annotations

from typing import Any

import keras

from dssm_tf.common.memory import return_freed_memory
from dssm_tf.model.siamese import Siamese
from dssm_tf.model.text_scorer import TextScorer
from dssm_tf.training.model_state import assign_all, ranking_weights
from dssm_tf.training.validation import ValidationTask, score_task


class RankingValidation(keras.callbacks.Callback):
    """Adds the validation NDCG to the logs of each epoch, with its 95 % interval.

    The logs get `ndcg@1`, `ndcg@3` and `ndcg@10`, and for each the ends of the interval, such as
    `low ndcg@1` and `high ndcg@1`. Callbacks later in the list can read them. The model is
    validated with the weights to rank with: moving averages if the optimizer has them.

    Args:
        task: the validation queries, the titles they rank, and their grades.
        ranking_model: a model of the same towers in float32. It gets the weights of each epoch.
        scorer: scores texts with `ranking_model`.
    """

    def __init__(self, task: ValidationTask, ranking_model: Siamese, scorer: TextScorer) -> None:
        super().__init__()
        self.task = task
        self.ranking_model = ranking_model
        self.scorer = scorer

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Ranks the validation queries and adds the metrics to the logs.

        Raises:
            UserError: a weight is not a finite number.
        """
        del epoch
        assign_all(self.ranking_model.weights, ranking_weights(self.model))
        if logs is not None:
            logs.update(self.task.metrics_with_ci(score_task(self.scorer, self.task)))
        return_freed_memory()
