"""How long and how fast the networks of the DSE paper are trained; Keras is not needed for it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from dssm_tf.baselines.base import AboveZero, AtLeastZero, Count, Share


@dataclass(frozen=True)
class Pretraining:
    """How an RBM is taught.

    Args:
        steps: batches of texts, for each RBM: few texts are passed over more often than many;
            0 for none.
        batch_size: texts a step.
        learning_rate: epsilon of eq. 13 for binary hidden units.
        gaussian_learning_rate: the same for Gaussian ones, whose activities are not bounded:
            they take a smaller one.
        momentum: share of the last step that is made again.
        weight_decay: pull of W towards zero.

    Reference: Wu et al. 2014, sec. 2.2 and 4.1.
    """

    steps: Annotated[int, Field(ge=0)] = 500
    batch_size: Count = 64
    learning_rate: AboveZero = 0.1
    gaussian_learning_rate: AboveZero = 0.01
    momentum: Share = 0.9
    weight_decay: AtLeastZero = 1e-4


@dataclass(frozen=True)
class FineTuning:
    """How a pair model is fitted to tuples.

    Args:
        steps: batches of tuples.
        learning_rate: of the first step; it falls to 0 along a cosine, which the paper does not
            say but which ends the noise of the last batches.
        optimizer: `"sgd"`, with momentum, as in the paper; or `"adam"`, which needs fewer steps.
        momentum: of `"sgd"`: share of the last step that is made again.
        weight_decay: pull of the matrices towards zero: a step takes `learning_rate *
            weight_decay` of them away, beside momentum; biases are left alone.
        clip_norm: length to which a longer gradient is cut; None never cuts.
        batch_size: links a step.
        check_every: steps between two looks at the links kept for choosing.

    Reference: Wu et al. 2014, sec. 2.3 and 4.1.
    """

    steps: Count = 1000
    learning_rate: AboveZero = 0.1
    optimizer: Literal["adam", "sgd"] = "sgd"
    momentum: Share = 0.9
    weight_decay: AtLeastZero = 1e-4
    clip_norm: AboveZero | None = 1.0
    batch_size: Annotated[int, Field(ge=2)] = 256
    check_every: Count = 100
