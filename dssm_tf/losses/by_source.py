"""One loss a source of labels: clicks, judgments, a teacher."""

from __future__ import annotations

from collections.abc import Sequence

import keras
from keras import ops

from dssm_tf.losses.ranking_loss import RankingLoss


@keras.saving.register_keras_serializable(package="dssm_tf")
class BySource(RankingLoss):
    """The loss of each query by the source of its labels.

    Args:
        losses: one a source.

    Call arguments:
        y_true: what a `RankingLoss` takes, and `source`, int `(batch,)`: which of the losses a
            row has.
        y_pred: what a `RankingLoss` takes.
    """

    def __init__(self, losses: Sequence[RankingLoss], name="by_source", **kwargs):
        super().__init__(name=name, **kwargs)
        self.losses = tuple(losses)

    def call(self, y_true, y_pred):
        """Loss of each query `(batch,)`."""
        total = 0.0
        for number, loss in enumerate(self.losses):
            own = ops.equal(y_true["source"], number)
            # Another source's targets may be too large for this loss: what is no number times 0
            # would be none in the gradients.
            targets = ops.where(own[:, None], y_true["targets"], 0.0)
            found = loss.call({**y_true, "targets": targets}, y_pred)
            total = total + ops.where(own, found, 0.0)
        return total

    def per_query(self, scores, mask, correction, targets):
        """Not there: which loss a query has depends on its source."""
        raise NotImplementedError("BySource is called with labels that hold `source`.")

    def get_config(self):
        """Constructor arguments, for `keras.saving`."""
        serialize = keras.saving.serialize_keras_object
        return super().get_config() | {"losses": [serialize(loss) for loss in self.losses]}

    @classmethod
    def from_config(cls, config):
        """Rebuilds the loss with those that it holds."""
        deserialize = keras.saving.deserialize_keras_object
        return cls(**config | {"losses": [deserialize(loss) for loss in config["losses"]]})
