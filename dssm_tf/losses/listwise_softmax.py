"""The loss of a list of graded titles."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from dssm_tf.losses.ranking_loss import MASKED_LOGIT, RankingLoss, check_positive

_SMALLEST_GAIN = 1e-30  # every gain above 0 is larger, and the reciprocal is a float32


@keras.saving.register_keras_serializable(package="dssm_tf")
class ListwiseSoftmax(RankingLoss):
    """Cross-entropy between the titles' fractions of the gain and a softmax of scores, in nats.

    `- sum_i g_i / sum_j g_j log softmax(gamma R)_i` with the gain `g = 2^grade - 1` of NDCG.
    It equals `ClickSoftmax` where one title has a grade and the others have 0. Differs from the
    top-one probabilities of Cao et al. 2007, which take a softmax of the grades too (that is `KL`,
    up to a constant): here, titles of grade 0 do not count. A query whose titles all have grade 0
    has no loss.

    Args:
        gamma: factor that scales the score, above 0.
        kwargs: arguments of `RankingLoss`.

    Raises:
        ValueError: `gamma` is not above 0.

    Reference: Bruch et al. 2019; Cao et al. 2007.
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
        logits = ops.where(mask, self.gamma * scores, MASKED_LOGIT)
        gains = ops.where(mask, ops.power(2.0, ops.cast(targets, scores.dtype)) - 1.0, 0.0)
        total = ops.sum(gains, axis=-1)
        fractions = gains / ops.maximum(total, _SMALLEST_GAIN)[..., None]
        entropy = ops.logsumexp(logits, axis=-1) - ops.sum(fractions * logits, axis=-1)
        return ops.where(total > 0, entropy, 0.0)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments, for `keras.saving`."""
        config: dict[str, Any] = super().get_config()
        return config | {"gamma": self.gamma}
