"""Distillation: how far a softmax of the scores is from the one of a teacher's scores."""

from __future__ import annotations

import keras
from keras import ops

from dssm_tf.losses.ranking_loss import NEVER, RankingLoss


@keras.saving.register_keras_serializable(package="dssm_tf")
class KL(RankingLoss):
    """Kullback-Leibler divergence from a teacher's softmax to that of scaled cosines, in nats.

    `sum_i q_i log(q_i / p_i)` with `q = softmax(teacher / temperature)` and `p = softmax(gamma
    R)`. Differs from `ListwiseSoftmax` by what a score of 0 says: nothing of its own, for a
    softmax knows differences alone. With grades for teacher's scores it is ListNet's loss, less a
    constant. Hinton et al. have one temperature on both sides and the loss times its square; here
    the sides have scales of their own, and a loss has a weight.

    Args:
        gamma: smoothing factor of the softmax of cosines.
        temperature: what the teacher's scores are divided by: the smaller, the more the teacher's
            first titles are all that counts. About a tenth of the range of the scores; the
            default is for cosines.

    Reference: Hinton et al. 2015; Cao et al. 2007.
    """

    def __init__(self, gamma=10.0, temperature=0.1, name="kl", **kwargs):
        super().__init__(name=name, **kwargs)
        for key, value in (("gamma", gamma), ("temperature", temperature)):
            if not value > 0:
                raise ValueError(f"KL received {key}={value}; expected {key} > 0.")
        self.gamma = gamma
        self.temperature = temperature

    def per_query(self, scores, mask, correction, targets):
        """The divergence; targets are the teacher's scores."""
        given = ops.cast(targets, scores.dtype) / self.temperature
        teacher = _log_softmax(ops.where(mask, given, NEVER))
        student = _log_softmax(ops.where(mask, self.gamma * scores, NEVER))
        return ops.sum(ops.where(mask, ops.exp(teacher) * (teacher - student), 0.0), axis=-1)

    def get_config(self):
        """Constructor arguments, for `keras.saving`."""
        return super().get_config() | {"gamma": self.gamma, "temperature": self.temperature}


def _log_softmax(logits):
    return logits - ops.logsumexp(logits, axis=-1, keepdims=True)
