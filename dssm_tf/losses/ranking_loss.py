"""What every loss takes: scores of candidates, which of them count, and which were clicked."""

from __future__ import annotations

import abc

import keras
from keras import ops

# The logit of a candidate that must not count. Finite, so that reduced-precision gradients stay
# free of NaN, and so low that exp() of it is exactly 0 in float32 whatever gamma is.
NEVER = -1e9


class RankingLoss(keras.losses.Loss, abc.ABC):
    """A loss of each query from the scores of its candidate titles.

    Differs from `keras.losses.Loss` by what stands where Keras has `y_true`: a dict of what is
    known of the candidates. A subclass writes `per_query`; Keras weighs and reduces what it says.

    Call arguments:
        y_true: dict of `mask`, `correction` and `targets`, each `(batch, columns)`, see
            `per_query`.
        y_pred: scores `(batch, columns)`, such as cosines; or `(batch, columns, lengths)`, by
            nested lengths of the vectors: the loss is then the mean of each length's.
    """

    def call(self, y_true, y_pred):
        """Loss of each query `(batch,)`."""
        if len(y_pred.shape) == 3:
            by_length = ops.unstack(y_pred, axis=-1)
            return sum(self.call(y_true, scores) for scores in by_length) / len(by_length)
        mask = ops.cast(y_true["mask"], "bool")
        return self.per_query(y_pred, mask, y_true["correction"], y_true["targets"])

    @abc.abstractmethod
    def per_query(self, scores, mask, correction, targets):
        """Loss of each query `(batch,)`, 0 for one without a rival.

        Args:
            scores: `(batch, columns)`, in float32 like all else, whatever the model computes in.
            mask: bool `(batch, columns)`, false for a candidate that must not count.
            correction: `(batch, columns)`, in nats: the log of how many candidates the column
                stands for, less that of how often it was drawn (logQ).
            targets: `(batch, columns)`, 1 for the clicked title and else 0.
        """


def clicked_score(scores, targets):
    """The score of the clicked title, `(batch, 1)`."""
    return ops.sum(targets * scores, axis=-1, keepdims=True)


def rival_weights(mask, correction, targets):
    """What each rival weighs in a sum over a query's rivals, `(batch, columns)`.

    `exp(correction)`, as often as the softmax of `ClickSoftmax` counts it; 0 for the clicked title
    and for a candidate that must not count.

    Args:
        mask: see `RankingLoss.per_query`, as the others.
        correction: in nats.
        targets: 1 for the clicked title.
    """
    rivals = ops.logical_and(mask, ops.equal(targets, 0))
    return ops.where(rivals, ops.exp(correction), 0.0)
