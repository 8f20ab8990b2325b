"""Each title by itself: how improbable it is that it was clicked, or that it was not."""

from __future__ import annotations

import keras
from keras import ops

from dssm_tf.losses.ranking_loss import RankingLoss, clicked_score, rival_weights


@keras.saving.register_keras_serializable(package="dssm_tf")
class Sigmoid(RankingLoss):
    """Binary cross-entropy of each title: clicked or rival, in nats.

    `log(1 + exp(-z(clicked)))` plus the sum over the rivals of `log(1 + exp(z(rival)))`, where
    `z = gamma R + bias`. Differs from the other losses by comparing each score with a constant,
    not with the clicked one's: scores mean the same for every query, so that one threshold can
    cut every list.

    Args:
        gamma: factor of the scores, chosen on held-out data.
        bias: the logit of a score of 0. Below 0, because a query has many rivals and one click.

    Reference: Mikolov et al. 2013, eq. 4 (negative sampling); Zhai et al. 2023 (SigLIP), sec. 3.2,
    who start from gamma 10 and bias -10.
    """

    def __init__(self, gamma=10.0, bias=-5.0, name="sigmoid", **kwargs):
        super().__init__(name=name, **kwargs)
        if not gamma > 0:
            raise ValueError(f"Sigmoid received gamma={gamma}; expected gamma > 0.")
        self.gamma = gamma
        self.bias = bias

    def per_query(self, scores, mask, correction, targets):
        """Minus the log of the probability of all that users did; 0 where there is no rival."""
        weights = rival_weights(mask, correction, targets)
        logits = self.gamma * scores + self.bias
        clicked = ops.softplus(-clicked_score(logits, targets)[..., 0])
        # A click alone would push all cosines to 1, which no ranking needs.
        clicked = ops.where(ops.any(weights > 0, axis=-1), clicked, 0.0)
        return clicked + ops.sum(weights * ops.softplus(logits), axis=-1)

    def get_config(self):
        """Constructor arguments, for `keras.saving`."""
        own = {"gamma": self.gamma, "bias": self.bias}
        return super().get_config() | own
