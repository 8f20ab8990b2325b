"""The logistic loss of pairs of the clicked title and one negative."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from dssm_tf.losses.ranking_loss import (
    RankingLoss,
    check_positive,
    clicked_score,
    weights_of_negatives,
)


@keras.saving.register_keras_serializable(package="dssm_tf")
class PairwiseLogistic(RankingLoss):
    """`log(1 + exp(-gamma (R(clicked) - R(negative))))`, summed over a query's negatives, in nats.

    Differs from `ClickSoftmax` by comparing with one negative at a time. Several negatives with low
    scores can therefore have as much gradient as one with a high score. In the softmax, the
    negatives with the highest scores have most of the gradient.

    Args:
        gamma: factor that scales the score, above 0.
        kwargs: arguments of `RankingLoss`.

    Raises:
        ValueError: `gamma` is not above 0.

    Reference: Burges et al. 2005 (RankNet), eq. 3 with target probability 1; Rendle et al. 2009
    (BPR), sec. 4.1.
    """

    def __init__(self, gamma: float = 10.0, **kwargs: Any) -> None:
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
        differences = self.gamma * (scores - clicked_score(scores, targets))
        weights = weights_of_negatives(targets, mask, correction)
        return ops.sum(weights * ops.softplus(differences), axis=-1)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments, for `keras.saving`."""
        config: dict[str, Any] = super().get_config()
        return config | {"gamma": self.gamma}
