"""The losses as Keras takes them: of one function, by source of labels, by nested lengths."""

from __future__ import annotations

import keras
from keras import ops
from pydantic import ValidationError

from dssm_tf.losses import GRADED_LOSSES, LOSSES

_serialize = keras.saving.serialize_keras_object
_deserialize = keras.saving.deserialize_keras_object


@keras.saving.register_keras_serializable(package="dssm_tf")
class RankingLoss(keras.losses.Loss):
    """A function of `dssm_tf.losses.functions`, of each query from the scores of its titles.

    Differs from `keras.losses.Loss` by what stands where Keras has `y_true`: a dict of what is
    known of the candidates.

    Args:
        name: of `LOSSES` or `GRADED_LOSSES`.
        reduction: see `keras.losses.Loss`.
        dtype: see `keras.losses.Loss`.
        parameters: of the function; those of the table by default.

    Call arguments:
        y_true: dict of `mask`, `correction` and `targets`, each `(batch, columns)`.
        y_pred: scores `(batch, columns)`, such as cosines.

    Raises:
        ValueError: there is no such loss or parameter, or its value is outside of its range.
    """

    def __init__(self, name, reduction="sum_over_batch_size", dtype=None, **parameters):
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        table = GRADED_LOSSES if name in GRADED_LOSSES else LOSSES
        try:
            self.parameters = table.parse({"name": name, **parameters}).arguments
        except ValidationError as error:
            key, reason = error.errors()[0]["loc"], error.errors()[0]["msg"].lower()
            raise ValueError(
                f"{name} received {parameters}: {' '.join(map(str, key))} {reason}."
            ) from None
        self.function = table[name].kind

    def call(self, y_true, y_pred):
        """Loss of each query `(batch,)`."""
        mask = ops.cast(y_true["mask"], "bool")
        return self.function(
            y_pred, y_true["targets"], mask, y_true["correction"], **self.parameters
        )

    def get_config(self):
        """Constructor arguments, for `keras.saving`."""
        return super().get_config() | self.parameters


@keras.saving.register_keras_serializable(package="dssm_tf")
class BySource(keras.losses.Loss):
    """The loss of each query by the source of its labels: clicks, judgments, a teacher.

    Args:
        losses: a `RankingLoss` a source.

    Call arguments:
        y_true: what a `RankingLoss` takes, and `source`, int `(batch,)`: which of the losses a
            row has.
        y_pred: what a `RankingLoss` takes.
    """

    def __init__(self, losses, name="by_source", **kwargs):
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
            values = loss.call({**y_true, "targets": targets}, y_pred)
            total = total + ops.where(own, values, 0.0)
        return total

    def get_config(self):
        """Constructor arguments, for `keras.saving`."""
        return super().get_config() | {"losses": [_serialize(loss) for loss in self.losses]}

    @classmethod
    def from_config(cls, config):
        """Rebuilds the loss with those that it holds."""
        return cls(**config | {"losses": [_deserialize(loss) for loss in config["losses"]]})


@keras.saving.register_keras_serializable(package="dssm_tf")
class NestedLengths(keras.losses.Loss):
    """The mean of a loss over the lengths to which vectors may be cut, and the whole length.

    Args:
        loss: of each length.

    Call arguments:
        y_true: what the loss takes.
        y_pred: scores `(batch, columns, lengths)`, such as those of a `NestedSiamese`.

    Reference: Kusupati et al. 2022 (Matryoshka), eq. 1, which sums: the mean keeps the loss in its
    units.
    """

    def __init__(self, loss, name="nested_lengths", **kwargs):
        super().__init__(name=name, **kwargs)
        self.loss = loss

    def call(self, y_true, y_pred):
        """Loss of each query `(batch,)`."""
        by_length = ops.unstack(y_pred, axis=-1)
        return sum(self.loss.call(y_true, scores) for scores in by_length) / len(by_length)

    def get_config(self):
        """Constructor arguments, for `keras.saving`."""
        return super().get_config() | {"loss": _serialize(self.loss)}

    @classmethod
    def from_config(cls, config):
        """Rebuilds the loss with the one that it holds."""
        return cls(**config | {"loss": _deserialize(config["loss"])})
