"""The loss of single titles: clicked or not."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from dssm_tf.losses.ranking_loss import (
    RankingLoss,
    check_finite,
    check_positive,
    clicked_score,
    weights_of_negatives,
)


@keras.saving.register_keras_serializable(package="dssm_tf")
class Sigmoid(RankingLoss):
    """Binary cross-entropy of each title: clicked or negative, in nats.

    `log(1 + exp(-z(clicked)))` plus the sum over the negatives of `log(1 + exp(z(negative)))`,
    where `z = gamma R + bias`. Differs from the other losses by comparing each score with a
    constant instead of the clicked title's score. So scores of different queries are comparable,
    and one threshold can separate good titles from poor ones for every query.

    Args:
        gamma: factor that scales the score, above 0.
        bias: added to the scaled score. Below 0, because a query has many negatives and one click.
        kwargs: arguments of `RankingLoss`.

    Raises:
        ValueError: `gamma` is not above 0, or `bias` is not finite.

    Reference: Mikolov et al. 2013, eq. 4 (negative sampling); Zhai et al. 2023 (SigLIP), sec. 3.2,
    who start from gamma 10 and bias -10.
    """

    def __init__(self, gamma: float = 10.0, bias: float = -5.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.gamma = check_positive(self, "gamma", gamma)
        self.bias = check_finite(self, "bias", bias)

    def per_query(
        self,
        scores: keras.KerasTensor,
        targets: keras.KerasTensor,
        mask: keras.KerasTensor,
        correction: keras.KerasTensor,
    ) -> keras.KerasTensor:
        """See `RankingLoss.per_query`."""
        weights = weights_of_negatives(targets, mask, correction)
        logits = self.gamma * scores + self.bias
        clicked = ops.softplus(-clicked_score(logits, targets)[..., 0])
        # Without negatives, the click alone would push all cosines to 1, which no ranking needs.
        clicked = ops.where(ops.any(weights > 0, axis=-1), clicked, 0.0)
        return clicked + ops.sum(weights * ops.softplus(logits), axis=-1)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments, for `keras.saving`."""
        config: dict[str, Any] = super().get_config()
        return config | {"gamma": self.gamma, "bias": self.bias}
