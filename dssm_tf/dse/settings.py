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
        steps: batches of texts for each RBM; 0 for none.
        batch_size: texts per step.
        learning_rate: epsilon of eq. 13 for binary hidden units.
        gaussian_learning_rate: the same for Gaussian ones, which need a smaller one, because their
            activities are not bounded.
        momentum: fraction of the last step that is repeated.
        weight_decay: pull of W toward zero.

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
        steps: batches of tuples.
        learning_rate: of the first step. It falls to 0 along a cosine, which is not in the paper
            and reduces the noise of the last batches.
        optimizer: `"sgd"`, with momentum, as in the paper; or `"adam"`, which needs fewer steps.
        momentum: of `"sgd"`: fraction of the last step that is repeated.
        weight_decay: pull of the matrices toward zero: a step takes `learning_rate *
            weight_decay` of them away, beside momentum; biases do not decay.
        clip_norm: largest length of a gradient; None never clips.
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
