"""How long and how fast the networks of the DSE paper are trained; Keras is not needed for it."""

from __future__ import annotations

from dataclasses import dataclass

_OPTIMIZERS = ("adam", "sgd")


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

    steps: int = 500
    batch_size: int = 64
    learning_rate: float = 0.1
    gaussian_learning_rate: float = 0.01
    momentum: float = 0.9
    weight_decay: float = 1e-4

    def __post_init__(self) -> None:
        """Refuses what is no plan."""
        if self.steps < 0:
            raise ValueError(f"Pretraining received steps={self.steps}; expected 0 or more.")


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

    steps: int = 1000
    learning_rate: float = 0.1
    optimizer: str = "sgd"
    momentum: float = 0.9
    weight_decay: float = 1e-4
    clip_norm: float | None = 1.0
    batch_size: int = 256
    check_every: int = 100

    def __post_init__(self) -> None:
        """Refuses what is no plan."""
        if self.steps < 1 or self.batch_size < 2 or not self.learning_rate > 0:
            raise ValueError(
                f"FineTuning received steps={self.steps}, batch_size={self.batch_size}, "
                f"learning_rate={self.learning_rate}; expected at least 1, at least 2, above 0."
            )
        if self.optimizer not in _OPTIMIZERS:
            raise ValueError(
                f"FineTuning received optimizer={self.optimizer!r}; "
                f"expected one of {', '.join(_OPTIMIZERS)}."
            )
