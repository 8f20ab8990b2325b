"""The loss of the DSE family: every other title stays a margin below the relevant one."""

from __future__ import annotations

import keras
from keras import ops

from dssm_tf.losses.ranking_loss import RankingLoss


@keras.saving.register_keras_serializable(package="dssm_tf")
class MarginRank(RankingLoss):
    """Hinge of each irrelevant title that does not score a margin below the relevant one.

    `max(0, margin - s(q, d+) + s(q, d-))`, the mean over a query's irrelevant titles, 0 where it
    has none. The paper sums, which only rescales the learning rate.

    Args:
        margin: 1 in the paper; dot products can grow, so another value only changes their scale.

    Reference: Wu et al. 2014, eq. 14.
    """

    def __init__(self, margin=1.0, name="margin_rank", **kwargs):
        super().__init__(name=name, **kwargs)
        if not margin > 0:
            raise ValueError(f"MarginRank received margin={margin}; expected margin > 0.")
        self.margin = margin

    def per_query(self, scores, mask, correction, targets):
        """Mean hinge over the rivals, each counted as often as its correction says."""
        counted = ops.where(mask, (1 - targets) * ops.exp(correction), 0.0)
        relevant = ops.sum(targets * scores, axis=-1, keepdims=True)
        hinges = ops.relu(self.margin - relevant + scores)
        return ops.divide_no_nan(ops.sum(counted * hinges, axis=-1), ops.sum(counted, axis=-1))

    def get_config(self):
        """Constructor arguments, for `keras.saving`."""
        return super().get_config() | {"margin": self.margin}
