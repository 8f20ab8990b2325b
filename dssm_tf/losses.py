"""The losses: of the click models, and of the DSE family, which ranks pairs by a margin."""

from __future__ import annotations

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="dssm_tf")
class ClickSoftmax(keras.losses.Loss):
    """Negative log posterior of the clicked title under a softmax of scaled cosines.

    `-log softmax(gamma R + offset)[0]`, in nats, with the clicked title in column 0. Differs
    from a categorical cross-entropy by `gamma`, which widens the range of the cosine, and by
    the offsets, with which the data masks candidates exactly, counts a candidate that stands
    for several, and corrects for how often each is drawn (logQ).

    Args:
        gamma: smoothing factor of the softmax, chosen on held-out data.

    Call arguments:
        offsets: `(batch, columns)`, added to the logits: 0 for a plain candidate, `MASKED` for
            one that must not count. Stands where Keras has `y_true`.
        cosines: `(batch, columns)`.

    Returns:
        `(batch,)` before reduction.

    Reference: Palangi et al. 2016, eq. 4-5; Shen et al. 2014, eq. 5-6; without gamma
    Palangi et al. 2014, eq. 9.
    """

    def __init__(self, gamma=10.0, name="click_softmax", **kwargs):
        super().__init__(name=name, **kwargs)
        if not gamma > 0:
            raise ValueError(f"ClickSoftmax received gamma={gamma}; expected gamma > 0.")
        self.gamma = gamma

    def call(self, offsets, cosines):
        """Loss of each query."""
        logits = self.gamma * ops.cast(cosines, "float32") + ops.cast(offsets, "float32")
        return ops.logsumexp(logits, axis=-1) - logits[:, 0]

    def get_config(self):
        """Constructor arguments, for `keras.saving`."""
        return super().get_config() | {"gamma": self.gamma}


@keras.saving.register_keras_serializable(package="dssm_tf")
class MarginRank(keras.losses.Loss):
    """Hinge of each irrelevant title that does not score a margin below the relevant one.

    `max(0, margin - s(q, d+) + s(q, d-))`, the mean over a query's irrelevant titles. The paper
    sums, which only rescales the learning rate.

    Args:
        margin: 1 in the paper; dot products can grow, so another value only changes their scale.

    Call arguments:
        counted: `(batch, columns)`, 1 for a tuple that counts, 0 for one that does not, such as
            a title that is relevant too. Stands where Keras has `y_true`.
        scores: `(batch, 1 + columns)`, the relevant title in column 0.

    Returns:
        `(batch,)` before reduction; 0 for a query without a counted title.

    Reference: Wu et al. 2014, eq. 14.
    """

    def __init__(self, margin=1.0, name="margin_rank", **kwargs):
        super().__init__(name=name, **kwargs)
        if not margin > 0:
            raise ValueError(f"MarginRank received margin={margin}; expected margin > 0.")
        self.margin = margin

    def call(self, counted, scores):
        """Loss of each query."""
        counted = ops.cast(counted, scores.dtype)
        hinges = ops.relu(self.margin - scores[:, :1] + scores[:, 1:])
        return ops.sum(counted * hinges, axis=-1) / ops.maximum(ops.sum(counted, axis=-1), 1)

    def get_config(self):
        """Constructor arguments, for `keras.saving`."""
        return super().get_config() | {"margin": self.margin}
