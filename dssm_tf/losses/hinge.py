"""The margin loss of pairs: clicked title and one rival."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from dssm_tf.losses.ranking_loss import (
    RankingLoss,
    check_positive,
    clicked_score,
    rival_weights,
)


@keras.saving.register_keras_serializable(package="dssm_tf")
class Hinge(RankingLoss):
    """`max(0, margin - R(clicked) + R(rival))`, summed over a query's rivals.

    Differs from `PairwiseLogistic` by ignoring rivals that are a margin behind.

    Args:
        margin: lead that the clicked title needs, above 0, in units of the score: for cosines
            below 2.
        kwargs: arguments of `RankingLoss`.

    Raises:
        ValueError: `margin` is not above 0.

    Reference: Joachims 2002 (ranking SVM), sec. 4.1, whose slack it is; Wu et al. 2014, eq. 14,
    with a margin of 1 for dot products.
    """

    def __init__(self, margin: float = 0.2, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.margin = check_positive(self, "margin", margin)

    def per_query(
        self,
        scores: keras.KerasTensor,
        targets: keras.KerasTensor,
        mask: keras.KerasTensor,
        correction: keras.KerasTensor,
    ) -> keras.KerasTensor:
        """See `RankingLoss.per_query`."""
        missing_lead = ops.relu(self.margin + scores - clicked_score(scores, targets))
        return ops.sum(rival_weights(targets, mask, correction) * missing_lead, axis=-1)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments, for `keras.saving`."""
        config: dict[str, Any] = super().get_config()
        return config | {"margin": self.margin}
