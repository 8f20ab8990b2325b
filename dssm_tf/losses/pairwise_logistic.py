"""How improbable it is, rival by rival, that the clicked title is the better one."""

from __future__ import annotations

import keras
from keras import ops

from dssm_tf.losses.ranking_loss import RankingLoss, clicked_score, rival_weights


@keras.saving.register_keras_serializable(package="dssm_tf")
class PairwiseLogistic(RankingLoss):
    """`log(1 + exp(-gamma (R(clicked) - R(rival))))`, summed over a query's rivals, in nats.

    Differs from `ClickSoftmax` by looking at one rival at a time: many poor rivals weigh as
    much as one good one, where the softmax's gradient goes to the rivals that score highest.

    Args:
        gamma: factor of the scores, chosen on held-out data.

    Reference: Burges et al. 2005 (RankNet), eq. 3 with target probability 1; Rendle et al. 2009
    (BPR), sec. 4.1.
    """

    def __init__(self, gamma=10.0, name="pairwise_logistic", **kwargs):
        super().__init__(name=name, **kwargs)
        if not gamma > 0:
            raise ValueError(f"PairwiseLogistic received gamma={gamma}; expected gamma > 0.")
        self.gamma = gamma

    def per_query(self, scores, mask, correction, targets):
        """The sum over the rivals of the pair's negative log probability."""
        behind = self.gamma * (scores - clicked_score(scores, targets))
        return ops.sum(rival_weights(mask, correction, targets) * ops.softplus(behind), axis=-1)

    def get_config(self):
        """Constructor arguments, for `keras.saving`."""
        return super().get_config() | {"gamma": self.gamma}
