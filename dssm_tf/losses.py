"""The loss of the click models."""

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
