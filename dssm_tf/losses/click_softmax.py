"""The papers' loss: a softmax over the clicked title and its negatives."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from dssm_tf.losses.ranking_loss import MASKED_LOGIT, RankingLoss, check_positive


@keras.saving.register_keras_serializable(package="dssm_tf")
class ClickSoftmax(RankingLoss):
    """Negative log posterior of the clicked title under a softmax of scaled scores, in nats.

        -log softmax(gamma R + correction)[clicked]

    Differs from a categorical cross-entropy by `gamma`, which widens the range of the scores, and
    by the correction. The correction lets a column count as several candidates, and corrects for
    how often sampled candidates are drawn (logQ).

    Args:
        gamma: factor that scales the score, above 0.
        kwargs: arguments of `RankingLoss`.

    Raises:
        ValueError: `gamma` is not above 0.

    Reference: Palangi et al. 2016, eq. 4-5; Shen et al. 2014, eq. 5-6; without gamma
    Palangi et al. 2014, eq. 9.
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
        logits = ops.where(mask, self.gamma * scores + correction, MASKED_LOGIT)
        return ops.logsumexp(logits, axis=-1) - ops.sum(targets * logits, axis=-1)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments, for `keras.saving`."""
        config: dict[str, Any] = super().get_config()
        return config | {"gamma": self.gamma}
