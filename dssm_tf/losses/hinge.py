"""By how much rivals come too close to the clicked title."""

from __future__ import annotations

import keras
from keras import ops

from dssm_tf.losses.ranking_loss import RankingLoss, clicked_score, rival_weights


@keras.saving.register_keras_serializable(package="dssm_tf")
class Hinge(RankingLoss):
    """`max(0, margin - R(clicked) + R(rival))`, summed over a query's rivals.

    Differs from `PairwiseLogistic` by forgetting a rival that is a margin behind: only those
    that are too close are learned from.

    Args:
        margin: in units of the score, for cosines below 2; chosen on held-out data.

    Reference: Joachims 2002 (ranking SVM), sec. 4.1, whose slack it is; Wu et al. 2014, eq. 14,
    with a margin of 1 for dot products.
    """

    def __init__(self, margin=0.2, name="hinge", **kwargs):
        super().__init__(name=name, **kwargs)
        if not margin > 0:
            raise ValueError(f"Hinge received margin={margin}; expected margin > 0.")
        self.margin = margin

    def per_query(self, scores, mask, correction, targets):
        """The sum over the rivals of what each lacks to be a margin behind."""
        lacks = ops.relu(self.margin + scores - clicked_score(scores, targets))
        return ops.sum(rival_weights(mask, correction, targets) * lacks, axis=-1)

    def get_config(self):
        """Constructor arguments, for `keras.saving`."""
        return super().get_config() | {"margin": self.margin}
