"""Distillation: how far the differences between titles' scores are from a teacher's."""

from __future__ import annotations

import keras
from keras import ops

from dssm_tf.losses.ranking_loss import RankingLoss


@keras.saving.register_keras_serializable(package="dssm_tf")
class MarginMSE(RankingLoss):
    """Mean squared error between the margins of scaled cosines and a teacher's, over all pairs.

    The mean over the pairs `i < j` of a query's titles of `((gamma R_i - gamma R_j) - (t_i -
    t_j))^2`, in squared units of the teacher. The paper has one pair a query, a relevant title and
    another; a list has them all, and their mean is twice the variance of `gamma R - t`, so that it
    costs one pass. Differs from `KL` in that the teacher's scale counts, and each pair as much as
    any other.

    Args:
        gamma: what cosines are multiplied by to be in the teacher's units: 1 for another cosine,
            about half the range of its scores for a cross-encoder's logits.

    Reference: Hofstätter et al. 2020.
    """

    def __init__(self, gamma=1.0, name="margin_mse", **kwargs):
        super().__init__(name=name, **kwargs)
        if not gamma > 0:
            raise ValueError(f"MarginMSE received gamma={gamma}; expected gamma > 0.")
        self.gamma = gamma

    def per_query(self, scores, mask, correction, targets):
        """The error; targets are the teacher's scores."""
        counts = ops.cast(mask, scores.dtype)
        number = ops.sum(counts, axis=-1)
        apart = ops.where(mask, self.gamma * scores - ops.cast(targets, scores.dtype), 0.0)
        mean = ops.sum(apart, axis=-1) / ops.maximum(number, 1.0)
        squares = ops.sum(counts * ops.square(apart - mean[..., None]), axis=-1)
        return 2.0 * squares / ops.maximum(number - 1.0, 1.0)

    def get_config(self):
        """Constructor arguments, for `keras.saving`."""
        return super().get_config() | {"gamma": self.gamma}
