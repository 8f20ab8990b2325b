"""Distillation: the divergence from a teacher's softmax."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from dssm_tf.losses.ranking_loss import MASKED_LOGIT, RankingLoss, check_positive


@keras.saving.register_keras_serializable(package="dssm_tf")
class KL(RankingLoss):
    """Kullback-Leibler divergence from a teacher's softmax to that of scaled scores, in nats.

    `sum_i q_i log(q_i / p_i)` with `q = softmax(teacher / temperature)` and
    `p = softmax(gamma R)`. Differs from `ListwiseSoftmax` by the meaning of a target of 0, which
    is an ordinary score here: a softmax depends on differences only. With grades as the teacher's
    scores it is ListNet's loss minus a constant. Hinton et al. divide the scores of both models by
    one temperature and multiply the loss by its square. Here the teacher has a temperature and the
    model has `gamma`, and the loss has a weight in the configuration.

    Args:
        gamma: factor that scales the score, above 0.
        temperature: divides the teacher's scores, above 0. The smaller it is, the more the
            teacher's first titles dominate; a tenth of the range of its scores is usual. The
            default suits cosines.
        kwargs: arguments of `RankingLoss`.

    Raises:
        ValueError: `gamma` or `temperature` is not above 0.

    Reference: Hinton et al. 2015; Cao et al. 2007.
    """

    def __init__(self, gamma: float = 10.0, temperature: float = 0.1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.gamma = check_positive(self, "gamma", gamma)
        self.temperature = check_positive(self, "temperature", temperature)

    def per_query(
        self,
        scores: keras.KerasTensor,
        targets: keras.KerasTensor,
        mask: keras.KerasTensor,
        correction: keras.KerasTensor,
    ) -> keras.KerasTensor:
        """See `RankingLoss.per_query`."""
        log_q = _log_softmax(ops.cast(targets, scores.dtype) / self.temperature, mask)
        log_p = _log_softmax(self.gamma * scores, mask)
        return ops.sum(ops.where(mask, ops.exp(log_q) * (log_q - log_p), 0.0), axis=-1)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments, for `keras.saving`."""
        config: dict[str, Any] = super().get_config()
        return config | {"gamma": self.gamma, "temperature": self.temperature}


def _log_softmax(logits: keras.KerasTensor, mask: keras.KerasTensor) -> keras.KerasTensor:
    """Log-probabilities `(batch, columns)` over the columns where the mask is true."""
    logits = ops.where(mask, logits, MASKED_LOGIT)
    return logits - ops.logsumexp(logits, axis=-1, keepdims=True)
