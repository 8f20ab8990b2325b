"""The base of all losses: from the scores of a query's titles to one number per query."""

from __future__ import annotations

import abc
import math
import re
from collections.abc import Mapping
from numbers import Real
from typing import Any

import keras
from keras import ops

# The logit of a masked candidate. It is finite, so that reduced-precision gradients have no NaN,
# and so low that its exp() is exactly 0 in float32 for every gamma.
MASKED_LOGIT = -1e9


def snake_case_name(loss_class: type) -> str:
    """The class's name in snake case.

    >>> snake_case_name(type("MarginMSE", (), {}))
    'margin_mse'
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", loss_class.__name__).lower()


class RankingLoss(keras.losses.Loss, abc.ABC):
    """A loss of each query, from the scores and labels of its titles.

    Differs from `keras.losses.Loss` by `y_true`, which is a dict of the candidates' labels. A
    subclass defines `per_query`.

    Args:
        reduction: see `keras.losses.Loss`.
        name: see `keras.losses.Loss`; by default the class's name in snake case, which is its name
            in configurations.
        dtype: see `keras.losses.Loss`.

    Call arguments:
        y_true: dict of `mask`, `correction` and `targets`, each `(batch, columns)`; the last two
            may have one row, `(1, columns)`, for all queries.
        y_pred: scores `(batch, columns)`, such as cosines.

    Returns:
        A scalar; with `reduction="none"`, `(batch,)`.
    """

    def __init__(
        self,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(name=name or snake_case_name(type(self)), reduction=reduction, dtype=dtype)

    def call(
        self, y_true: Mapping[str, keras.KerasTensor], y_pred: keras.KerasTensor
    ) -> keras.KerasTensor:
        """Loss of each query, `(batch,)`."""
        mask = ops.cast(y_true["mask"], "bool")
        return self.per_query(y_pred, y_true["targets"], mask, y_true["correction"])

    @abc.abstractmethod
    def per_query(
        self,
        scores: keras.KerasTensor,
        targets: keras.KerasTensor,
        mask: keras.KerasTensor,
        correction: keras.KerasTensor,
    ) -> keras.KerasTensor:
        """Loss of each query; 0 for a query without a negative.

        Args:
            scores: `(batch, columns)`, such as cosines; float32 for every precision of the model.
            targets: `(batch, columns)` or `(1, columns)`, 1 for the clicked title and 0 for the
                others; in a graded list, grades or a teacher's scores.
            mask: bool `(batch, columns)`, false for a candidate that is ignored.
            correction: `(batch, columns)` or `(1, columns)`, in nats: the log of the number of
                candidates that the column represents, minus the log of how often it was drawn
                (logQ). Losses of graded lists ignore it.

        Returns:
            `(batch,)`.
        """


def check_positive(owner: object, name: str, value: Any) -> float:
    """Returns a parameter as a float.

    Raises:
        ValueError: it is not a finite number above 0.
    """
    number = check_finite(owner, name, value)
    if number <= 0:
        raise ValueError(f"{type(owner).__name__} received {name}={value!r}; expected above 0.")
    return number


def check_finite(owner: object, name: str, value: Any) -> float:
    """Returns a parameter as a float.

    Raises:
        ValueError: it is not a finite number.
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ValueError(
            f"{type(owner).__name__} received {name}={value!r}; expected a finite number."
        )
    return float(value)


def clicked_score(scores: keras.KerasTensor, targets: keras.KerasTensor) -> keras.KerasTensor:
    """The score of the clicked title, `(batch, 1)`."""
    return ops.sum(targets * scores, axis=-1, keepdims=True)


def weights_of_negatives(
    targets: keras.KerasTensor, mask: keras.KerasTensor, correction: keras.KerasTensor
) -> keras.KerasTensor:
    """Weight of each negative in a sum over a query's negatives, `(batch, columns)`.

    It is the number of times that a softmax with the same correction counts the negative.
    """
    negatives = ops.logical_and(mask, ops.equal(targets, 0))
    return ops.where(negatives, ops.exp(correction), 0.0)
