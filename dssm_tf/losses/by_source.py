"""One loss per source of labels: clicks, judgments, a teacher."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import ops

from dssm_tf.losses.ranking_loss import RankingLoss


@keras.saving.register_keras_serializable(package="dssm_tf")
class BySource(keras.losses.Loss):
    """Applies to each query the loss of its source of labels.

    Args:
        losses: one `RankingLoss` per source.
        name: see `keras.losses.Loss`.
        kwargs: further arguments of `keras.losses.Loss`.

    Call arguments:
        y_true: labels as for `RankingLoss`, and `source`, int `(batch,)`: the index of each
            query's loss in `losses`.
        y_pred: scores as for `RankingLoss`.
    """

    def __init__(
        self, losses: Sequence[keras.losses.Loss], name: str = "by_source", **kwargs: Any
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.losses = tuple(losses)
        if not self.losses or not all(isinstance(loss, RankingLoss) for loss in self.losses):
            raise ValueError(
                f"BySource received losses={losses!r:.80}; expected one RankingLoss per source."
            )

    def call(
        self, y_true: Mapping[str, keras.KerasTensor], y_pred: keras.KerasTensor
    ) -> keras.KerasTensor:
        """Loss of each query, `(batch,)`."""
        total = 0.0
        for index, loss in enumerate(self.losses):
            has_source = ops.equal(y_true["source"], index)
            # Targets of another source may overflow in this loss. They are replaced, because NaN
            # times 0 is NaN in the gradients.
            targets = ops.where(has_source[:, None], y_true["targets"], 0.0)
            values = loss.call({**y_true, "targets": targets}, y_pred)
            total = total + ops.where(has_source, values, 0.0)
        return total

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments, for `keras.saving`."""
        losses = [keras.saving.serialize_keras_object(loss) for loss in self.losses]
        config: dict[str, Any] = super().get_config()
        return config | {"losses": losses}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> BySource:
        """Rebuilds the loss with the losses of its sources."""
        losses = [keras.saving.deserialize_keras_object(loss) for loss in config["losses"]]
        return cls(**config | {"losses": losses})
