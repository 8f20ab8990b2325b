"""The optimizer of the LSTM-RNN paper, and any of Keras's by name."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from dssm_tf.common.errors import UserError
from dssm_tf.config import OptimizerConfig
from dssm_tf.training.keras_internals import position


@keras.saving.register_keras_serializable(package="dssm_tf")
class ScheduledNesterov(keras.optimizers.Optimizer):
    """Nesterov's method with the paper's momentum schedule and per-tower norm clipping.

        D_k = mu_{k-1} D_{k-1} - epsilon grad L(L_{k-1} + mu_{k-1} D_{k-1})
        L_k = L_{k-1} + D_k

    Differs from `keras.optimizers.SGD(nesterov=True)` by a momentum that is `edge_momentum` in
    the first and last 2 % of all updates and `momentum` between, by a gradient that is rescaled
    to norm `clip_norm` when longer, separately for the query and the title tower, and by being
    exact when the momentum changes. The variables hold the look-ahead point
    `L_k + mu_k D_k`, where the next gradient is taken; `fit` ends at `L_k`.

    Args:
        learning_rate: fixed step size epsilon.
        total_updates: number of updates of this training; `total_updates.assign` changes it.
        momentum: mu in the middle.
        edge_momentum: mu at both ends.
        edge: share of the updates at each end.
        clip_norm: threshold `th_G` on a tower's gradient norm; None does not clip.

    Reference: Palangi et al. 2016, eq. 6 and algorithm 1.
    """

    def __init__(
        self,
        learning_rate=0.01,
        total_updates=1000,
        momentum=0.995,
        edge_momentum=0.9,
        edge=0.02,
        clip_norm=None,
        name="scheduled_nesterov",
        **kwargs,
    ):
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        if total_updates < 1:
            raise ValueError(f"total_updates={total_updates}; expected at least 1.")
        self.total_updates = self.add_variable(
            (), keras.initializers.Constant(total_updates), "float32", name="total_updates"
        )
        self.momentum = momentum
        self.edge_momentum = edge_momentum
        self.edge = edge
        self.clip_norm = clip_norm
        # Sums gradients over replicas before they are clipped; `training` sets it when several
        # devices share a step. The base class sums again, hence the division below.
        self.sum_over_replicas = None
        self.replicas = 1

    def build(self, variables):
        """Makes one `D` a variable, zero at first."""
        if self.built:
            return
        super().build(variables)
        self._built_on = list(variables)
        self._steps = self.add_optimizer_variables(variables, "step")

    def momentum_at(self, update):
        """mu_k for update `k`, counted from 0."""
        update = ops.cast(update, "float32")
        first = update < self.edge * self.total_updates
        last = update >= (1 - self.edge) * self.total_updates
        return ops.where(ops.logical_or(first, last), self.edge_momentum, self.momentum)

    def apply(self, grads, trainable_variables=None):
        """Clips the gradients, a tower at a time, and moves the variables."""
        variables = self._built_on if trainable_variables is None else list(trainable_variables)
        if self.clip_norm is not None:
            if self.sum_over_replicas is not None:
                grads = self.sum_over_replicas(grads)
            grads = clip_by_tower(grads, variables, self.clip_norm)
            grads = [gradient / self.replicas for gradient in grads]
        super().apply(grads, variables)

    def update_step(self, gradient, variable, learning_rate):
        """Moves one variable from look-ahead point to look-ahead point."""
        previous = self._steps[position(self, variable)]
        dtype = variable.dtype
        now = ops.cast(self.momentum_at(self.iterations), dtype)
        following = ops.cast(self.momentum_at(self.iterations + 1), dtype)
        old = ops.convert_to_tensor(previous)
        gradient = ops.cast(gradient, dtype)
        new = now * old - ops.cast(learning_rate, dtype) * gradient
        self.assign_add(variable, new + following * new - now * old)
        self.assign(previous, new)

    def finalize_variable_values(self, var_list):
        """Steps back from the look-ahead point to `L_k`, or leaves the moving averages if any."""
        super().finalize_variable_values(var_list)
        following = self.momentum_at(self.iterations)
        for variable in var_list:
            previous = self._steps[position(self, variable)]
            if not self.use_ema:
                variable.assign_sub(ops.cast(following, variable.dtype) * previous)
            previous.assign(ops.zeros_like(previous))

    def settled(self, variables):
        """`L_k` of variables that hold the look-ahead point; the variables stay as they are."""
        following = self.momentum_at(self.iterations)
        return [
            variable - ops.cast(following, variable.dtype) * self._steps[position(self, variable)]
            for variable in variables
        ]

    def get_config(self):
        """Constructor arguments, for `keras.saving`."""
        return super().get_config() | {
            "total_updates": int(ops.convert_to_numpy(self.total_updates)),
            "momentum": self.momentum,
            "edge_momentum": self.edge_momentum,
            "edge": self.edge,
            "clip_norm": self.clip_norm,
        }


def clip_by_tower(gradients, variables, threshold):
    """Rescales each tower's gradients to norm `threshold` where their joint norm exceeds it.

    Args:
        gradients: one a variable.
        variables: Keras variables, whose paths name their tower.
        threshold: `th_G` of P16 algorithm 1.

    Returns:
        The gradients, in order.
    """
    groups = {}
    for place, variable in enumerate(variables):
        names = [part for part in variable.path.split("/") if part.endswith("_tower")]
        groups.setdefault(names[0] if names else "", []).append(place)
    clipped = list(gradients)
    for places in groups.values():
        squares = [ops.sum(ops.square(ops.cast(clipped[i], "float32"))) for i in places]
        norm = ops.sqrt(sum(squares))
        scale = threshold / ops.maximum(norm, threshold)
        for i in places:
            clipped[i] = clipped[i] * ops.cast(scale, clipped[i].dtype)
    return clipped


def make_optimizer(
    name: str,
    learning_rate: float,
    total_updates: int,
    clip_norm: float | None = None,
    options: dict[str, Any] | None = None,
) -> keras.optimizers.Optimizer:
    """An optimizer by name: `nesterov` is the paper's, any other is Keras's.

    Args:
        name: `nesterov`, or a name `keras.optimizers.get` knows.
        learning_rate: step size.
        total_updates: updates of the whole training, for the momentum schedule.
        clip_norm: gradient norm threshold: a tower for `nesterov`, all variables otherwise.
        options: further arguments of the optimizer.
    """
    given = {"learning_rate": learning_rate, **(options or {})}
    if name == "nesterov":
        return ScheduledNesterov(total_updates=total_updates, clip_norm=clip_norm, **given)
    config = {"global_clipnorm": clip_norm} | given
    return keras.optimizers.get({"class_name": name, "config": config})


def check_optimizer(config: OptimizerConfig) -> None:
    """Updates one number once: Keras looks at most options only when they are used.

    Raises:
        UserError: there is no such optimizer, or it does not take the options.
    """
    number = keras.Variable(0.5)
    try:
        optimizer = make_optimizer(
            config.name, config.learning_rate, 1, config.clip_norm, config.options
        )
        optimizer.build([number])
        optimizer.apply([ops.ones(())], [number])
    except Exception as error:  # of any kind: TypeError, AttributeError, TensorFlow's own
        reason = str(error).split("\n")[0].split(" Full object config")[0][:200]
        raise UserError(
            f"optimizer: {config.name!r} with options {config.options!r:.200} was refused "
            f"({reason}); expected nesterov or the name of an optimizer of Keras, and its options."
        ) from None
