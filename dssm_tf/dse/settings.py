"""Settings of pretraining and fine-tuning; they load without Keras."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat
from pydantic.dataclasses import dataclass

from dssm_tf.common.field_types import Fraction, PositiveInt


@dataclass(frozen=True)
class Pretraining:
    """How an RBM is pretrained.

    Args:
        steps: number of steps for each RBM; 0 turns pretraining off.
        batch_size: texts per step.
        learning_rate: learning rate for binary hidden units, epsilon of eq. 13.
        gaussian_learning_rate: learning rate for Gaussian hidden units. It is smaller, because
            their activities are not bounded.
        momentum: fraction of the previous update that is added to each update.
        weight_decay: factor of the L2 penalty on W.

    Reference: Wu et al. 2014, sec. 2.2 and 4.1.
    """

    steps: Annotated[int, Field(ge=0)] = 500
    batch_size: PositiveInt = 64
    learning_rate: PositiveFloat = 0.1
    gaussian_learning_rate: PositiveFloat = 0.01
    momentum: Fraction = 0.9
    weight_decay: NonNegativeFloat = 1e-4


@dataclass(frozen=True)
class FineTuning:
    """How a pair model is fitted to tuples.

    Args:
        steps: number of steps, one batch of tuples each.
        learning_rate: learning rate of the first step. It falls to 0 along half a cosine. This is
            not in the paper; it reduces the noise of the last batches.
        optimizer: `"sgd"`, with momentum, as in the paper; or `"adam"`, which needs fewer steps.
        momentum: for `"sgd"`, the fraction of the previous update that is added to each update.
        weight_decay: each step subtracts `learning_rate * weight_decay` times the matrices, which
            does not enter the momentum. Biases do not decay.
        clip_norm: maximum norm of a gradient; None does not clip.
        batch_size: links per step.
        check_every: steps between two evaluations on the validation links.

    Reference: Wu et al. 2014, sec. 2.3 and 4.1.
    """

    steps: PositiveInt = 1000
    learning_rate: PositiveFloat = 0.1
    optimizer: Literal["adam", "sgd"] = "sgd"
    momentum: Fraction = 0.9
    weight_decay: NonNegativeFloat = 1e-4
    clip_norm: PositiveFloat | None = 1.0
    batch_size: Annotated[int, Field(ge=2)] = 256
    check_every: PositiveInt = 100
