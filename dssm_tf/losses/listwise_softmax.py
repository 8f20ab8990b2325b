"""The loss of graded lists: how far a softmax of the scores is from the titles' shares of gain."""

from __future__ import annotations

import keras
from keras import ops

from dssm_tf.losses.ranking_loss import NEVER, RankingLoss


@keras.saving.register_keras_serializable(package="dssm_tf")
class ListwiseSoftmax(RankingLoss):
    """Cross entropy between the titles' shares of gain and a softmax of scaled cosines, in nats.

    `- sum_i g_i / sum_j g_j log softmax(gamma R)_i` with the gain `g = 2^grade - 1` that NDCG has.
    Where one title has a grade and the others 0 it is `ClickSoftmax`. Differs from the top one
    probabilities of Cao et al. 2007, which take a softmax of the grades too (that is `KL`, up to a
    constant): a title of grade 0 has no share. A query whose titles all have grade 0 has no loss.

    Args:
        gamma: smoothing factor of the softmax, chosen on held-out data.

    Reference: Bruch et al. 2019; Cao et al. 2007.
    """

    def __init__(self, gamma=10.0, name="listwise_softmax", **kwargs):
        super().__init__(name=name, **kwargs)
        if not gamma > 0:
            raise ValueError(f"ListwiseSoftmax received gamma={gamma}; expected gamma > 0.")
        self.gamma = gamma

    def per_query(self, scores, mask, correction, targets):
        """The cross entropy; targets are grades, at least 0."""
        logits = ops.where(mask, self.gamma * scores, NEVER)
        gains = ops.where(mask, ops.power(2.0, ops.cast(targets, scores.dtype)) - 1.0, 0.0)
        total = ops.sum(gains, axis=-1)
        shares = gains / ops.maximum(total, _SMALLEST)[..., None]
        entropy = ops.logsumexp(logits, axis=-1) - ops.sum(shares * logits, axis=-1)
        return ops.where(total > 0, entropy, 0.0)

    def get_config(self):
        """Constructor arguments, for `keras.saving`."""
        return super().get_config() | {"gamma": self.gamma}


_SMALLEST = 1e-30  # a gain above 0 is larger, and its reciprocal is a float32
