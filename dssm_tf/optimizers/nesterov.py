"""The optimizer of the LSTM-RNN paper."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import keras
from keras import ops

from dssm_tf.common.keras_internals import variable_index


@keras.saving.register_keras_serializable(package="dssm_tf")
class ScheduledNesterov(keras.optimizers.Optimizer):
    """Nesterov's method with the paper's momentum schedule and gradient clipping per tower.

        D_k = mu_{k-1} D_{k-1} - epsilon grad L(L_{k-1} + mu_{k-1} D_{k-1})
        L_k = L_{k-1} + D_k

    Differs from `keras.optimizers.SGD(nesterov=True)` in three ways. The momentum is
    `edge_momentum` in the first and in the last updates (a fraction `edge` of them each), and
    `momentum` between. The gradient of each tower is rescaled to norm `clip_norm` if it is longer.
    The update is exact when the momentum changes. The variables hold the look-ahead point
    `L_k + mu_k D_k`, where the next gradient is computed; `fit` ends at `L_k`.

    Args:
        learning_rate: learning rate (epsilon of the paper), or a Keras learning-rate schedule.
        total_steps: number of updates of this training. It becomes a variable of the same name,
            so that `total_steps.assign(...)` can change it.
        momentum: mu of most updates.
        edge_momentum: mu of the first and of the last updates.
        edge: fraction of the updates, at either end, that have `edge_momentum`.
        clip_norm: threshold `th_G` on the gradient norm of a tower; None does not clip.
        name: see `keras.optimizers.Optimizer`.
        kwargs: further arguments of `keras.optimizers.Optimizer`.

    Reference: Palangi et al. 2016, eq. 6 and algorithm 1.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        total_steps: int = 1000,
        momentum: float = 0.995,
        edge_momentum: float = 0.9,
        edge: float = 0.02,
        clip_norm: float | None = None,
        name: str = "scheduled_nesterov",
        **kwargs: Any,
    ) -> None:
        for label, value in (("momentum", momentum), ("edge_momentum", edge_momentum)):
            if not 0 <= value < 1:
                raise ValueError(
                    f"ScheduledNesterov received {label}={value}; expected 0 <= {label} < 1."
                )
        if not 0 <= edge <= 1:
            raise ValueError(f"ScheduledNesterov received edge={edge}; expected 0 <= edge <= 1.")
        if clip_norm is not None and not clip_norm > 0:
            raise ValueError(f"ScheduledNesterov received clip_norm={clip_norm}; expected above 0.")
        if total_steps < 1:
            raise ValueError(
                f"ScheduledNesterov received total_steps={total_steps}; expected at least 1."
            )
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self.total_steps = self.add_variable(
            (), keras.initializers.Constant(total_steps), "float32", name="total_steps"
        )
        self.momentum = momentum
        self.edge_momentum = edge_momentum
        self.edge = edge
        self.clip_norm = clip_norm
        self._group_of_variable: dict[int, int] = {}
        # Sums gradients over replicas before they are clipped; `training` sets it when several
        # devices share a step. The base class sums again, hence the division in `apply`.
        self.sum_over_replicas: Callable[[list[Any]], list[Any]] | None = None
        self.replicas = 1

    def clip_separately(self, groups: Iterable[Iterable[keras.Variable]]) -> None:
        """Clips the joint gradient norm of each group of variables at `clip_norm`.

        By default all variables are one group. `Siamese.compile` makes each tower a group.

        Args:
            groups: lists of variables. Variables in no list are one more group.
        """
        # Ids instead of the variables, which Keras would track as variables of the optimizer.
        self._group_of_variable = {
            id(variable): index for index, group in enumerate(groups) for variable in group
        }

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Adds one `D` per variable, initially zero."""
        if self.built:
            return
        super().build(variables)
        self._built_on = list(variables)
        self._steps = self.add_optimizer_variables(variables, "step")

    def momentum_at(self, update: Any) -> keras.KerasTensor:
        """mu_k for update `k`, counted from 0."""
        update = ops.cast(update, "float32")
        first = update < self.edge * self.total_steps
        last = update >= (1 - self.edge) * self.total_steps
        return ops.where(ops.logical_or(first, last), self.edge_momentum, self.momentum)

    def apply(
        self,
        grads: list[keras.KerasTensor],
        trainable_variables: Sequence[keras.Variable] | None = None,
    ) -> None:
        """Clips the gradients, one group at a time, and moves the variables."""
        variables = self._built_on if trainable_variables is None else list(trainable_variables)
        if self.clip_norm is not None:
            if self.sum_over_replicas is not None:
                grads = self.sum_over_replicas(grads)
            groups = [self._group_of_variable.get(id(variable)) for variable in variables]
            grads = clip_by_group(grads, groups, self.clip_norm)
            grads = [gradient / self.replicas for gradient in grads]
        super().apply(grads, variables)

    def update_step(
        self, gradient: keras.KerasTensor, variable: keras.Variable, learning_rate: Any
    ) -> None:
        """Moves one variable to its next look-ahead point."""
        step = self._steps[variable_index(self, variable)]
        dtype = variable.dtype
        momentum = ops.cast(self.momentum_at(self.iterations), dtype)
        next_momentum = ops.cast(self.momentum_at(self.iterations + 1), dtype)
        old_step = ops.convert_to_tensor(step)
        gradient = ops.cast(gradient, dtype)
        new_step = momentum * old_step - ops.cast(learning_rate, dtype) * gradient
        self.assign_add(variable, new_step + next_momentum * new_step - momentum * old_step)
        self.assign(step, new_step)

    def finalize_variable_values(self, var_list: Sequence[keras.Variable]) -> None:
        """Sets the variables to `L_k`, or to the moving averages if there are any."""
        super().finalize_variable_values(var_list)
        if not self.use_ema:
            for variable, value in zip(var_list, self.without_look_ahead(var_list), strict=True):
                variable.assign(value)
        for step in self._steps:
            step.assign(ops.zeros_like(step))

    def without_look_ahead(self, variables: Sequence[keras.Variable]) -> list[keras.KerasTensor]:
        """`L_k` of variables that hold the look-ahead point; the variables do not change."""
        momentum = self.momentum_at(self.iterations)
        return [
            variable
            - ops.cast(momentum, variable.dtype) * self._steps[variable_index(self, variable)]
            for variable in variables
        ]

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments, for `keras.saving`."""
        names = ("momentum", "edge_momentum", "edge", "clip_norm")
        config: dict[str, Any] = super().get_config()
        return config | {
            "total_steps": int(ops.convert_to_numpy(self.total_steps)),
            **{name: getattr(self, name) for name in names},
        }


def clip_by_group(
    gradients: Sequence[keras.KerasTensor], groups: Sequence[Hashable], threshold: float
) -> list[keras.KerasTensor]:
    """Rescales the gradients of each group to norm `threshold` where their joint norm exceeds it.

    Args:
        gradients: tensors.
        groups: a key per gradient; gradients with equal keys are one group.
        threshold: `th_G` of Palangi et al. 2016, algorithm 1.

    Returns:
        The gradients, in order.
    """
    members: dict[Hashable, list[int]] = {}
    for index, group in enumerate(groups):
        members.setdefault(group, []).append(index)
    clipped = list(gradients)
    for indices in members.values():
        squares = [ops.sum(ops.square(ops.cast(clipped[i], "float32"))) for i in indices]
        norm = ops.sqrt(sum(squares))
        scale = threshold / ops.maximum(norm, threshold)
        for i in indices:
            clipped[i] = clipped[i] * ops.cast(scale, clipped[i].dtype)
    return clipped
