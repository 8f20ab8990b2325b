"""The loss of the click models: how improbable the clicked title was among its rivals."""

from __future__ import annotations

import keras
from keras import ops

from dssm_tf.losses.ranking_loss import NEVER, RankingLoss


@keras.saving.register_keras_serializable(package="dssm_tf")
class ClickSoftmax(RankingLoss):
    """Negative log posterior of the clicked title under a softmax of scaled cosines, in nats.

    `-log softmax(gamma R + correction)`. Differs from a categorical cross-entropy by `gamma`,
    which widens the range of the cosine, and by the correction, with which a candidate counts for
    several, and is corrected for how often each is drawn (logQ).

    Args:
        gamma: smoothing factor of the softmax, chosen on held-out data. A configuration may have
            `auto`, for which `with_gamma` puts a number.

    Reference: Palangi et al. 2016, eq. 4-5; Shen et al. 2014, eq. 5-6; without gamma
    Palangi et al. 2014, eq. 9.
    """

    def __init__(self, gamma=10.0, name="click_softmax", **kwargs):
        super().__init__(name=name, **kwargs)
        if not gamma > 0:
            raise ValueError(f"ClickSoftmax received gamma={gamma}; expected gamma > 0.")
        self.gamma = gamma

    def per_query(self, scores, mask, correction, targets):
        """Minus the log of the clicked title's probability."""
        logits = ops.where(mask, self.gamma * scores + correction, NEVER)
        return ops.logsumexp(logits, axis=-1) - ops.sum(targets * logits, axis=-1)

    def get_config(self):
        """Constructor arguments, for `keras.saving`."""
        return super().get_config() | {"gamma": self.gamma}
