"""Distillation: squared errors between the margins of pairs."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from dssm_tf.losses.ranking_loss import RankingLoss, check_positive


@keras.saving.register_keras_serializable(package="dssm_tf")
class MarginMSE(RankingLoss):
    """Mean squared error between the margins of scaled scores and a teacher's, over all pairs.

    The mean over the pairs `i < j` of a query's titles of
    `((gamma R_i - gamma R_j) - (t_i - t_j))^2`, in squared units of the teacher. The paper has one
    pair per query, a relevant title and another. Here, a list has all pairs. Their mean is twice
    the sample variance of `gamma R - t`, which is cheaper to compute. Differs from `KL`: the scale
    of the teacher's scores matters, and all pairs have the same weight.

    Args:
        gamma: factor that scales the score, above 0. Use 1 if the teacher's scores are cosines,
            and about half the range of the logits if the teacher is a cross-encoder.
        kwargs: arguments of `RankingLoss`.

    Raises:
        ValueError: `gamma` is not above 0.

    Reference: Hofstätter et al. 2020.
    """

    def __init__(self, gamma: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.gamma = check_positive(self, "gamma", gamma)

    def per_query(
        self,
        scores: keras.KerasTensor,
        targets: keras.KerasTensor,
        mask: keras.KerasTensor,
        correction: keras.KerasTensor,
    ) -> keras.KerasTensor:
        """See `RankingLoss.per_query`."""
        weights = ops.cast(mask, scores.dtype)
        title_count = ops.sum(weights, axis=-1)
        difference = ops.where(mask, self.gamma * scores - ops.cast(targets, scores.dtype), 0.0)
        mean = ops.sum(difference, axis=-1) / ops.maximum(title_count, 1.0)
        squares = ops.sum(weights * ops.square(difference - mean[..., None]), axis=-1)
        return 2.0 * squares / ops.maximum(title_count - 1.0, 1.0)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments, for `keras.saving`."""
        config: dict[str, Any] = super().get_config()
        return config | {"gamma": self.gamma}
