"""The margin loss of pairs: clicked title and one negative."""

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
class Hinge(RankingLoss):
    """`max(0, margin - R(clicked) + R(negative))`, summed over a query's negatives.

    Differs from `PairwiseLogistic` by ignoring negatives that score lower by at least the margin.

    Args:
        margin: required difference to the clicked title's score, above 0. For cosines, choose it
            below 2.
        kwargs: arguments of `RankingLoss`.

    Raises:
        ValueError: `margin` is not above 0.

    Reference: the slack of Joachims 2002 (ranking SVM), sec. 4.1; Wu et al. 2014, eq. 14, with a
    margin of 1 for dot products.
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
        return ops.sum(weights_of_negatives(targets, mask, correction) * missing_lead, axis=-1)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments, for `keras.saving`."""
        config: dict[str, Any] = super().get_config()
        return config | {"margin": self.margin}
