"""The plain recurrent cell, which Palangi et al. compare the LSTM with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="dssm_tf")
class TanhCell(keras.layers.Layer):
    """One step of a recurrent network: `y(t) = tanh(W l(t) + W_rec y(t-1) + b)`.

    Differs from `keras.layers.SimpleRNNCell` by an input that is already multiplied by `W`,
    which `WordHashing` did once per distinct word.

    Args:
        units: number of neurons.
        recurrent_initializer: initializes `W_rec`, `(units, units)`; the paper has "small random
            numbers" for all parameters.
        bias_initializer: initializes `b`.

    Call arguments:
        inputs: `(batch, units)`: `W l(t)`.
        states: `[y(t-1)]`, `(batch, units)`.

    Returns:
        `y(t)` and `[y(t)]`, `(batch, units)`.

    Reference: Palangi et al. 2016, eq. 1.
    """

    def __init__(
        self,
        units: int,
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if units < 1:
            raise ValueError(f"TanhCell received units={units}; expected at least 1.")
        self.units = units
        self.recurrent_initializer = keras.initializers.get(recurrent_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.state_size = [units]
        self.output_size = units

    def build(self, *_: Any) -> None:
        """Makes `W_rec` `(units, units)` and `b` `(units,)`."""
        self.recurrent_kernel = self.add_weight(
            name="recurrent_kernel",
            shape=(self.units, self.units),
            initializer=self.recurrent_initializer,
        )
        self.bias = self.add_weight(
            name="bias", shape=(self.units,), initializer=self.bias_initializer
        )
        self.built = True

    def call(
        self,
        inputs: keras.KerasTensor,
        states: Sequence[keras.KerasTensor],
        training: bool = False,
    ) -> tuple[keras.KerasTensor, list[keras.KerasTensor]]:
        """One time step; see the class."""
        del training
        y = self.activations(inputs, states)["y"]
        return y, [y]

    def activations(
        self, inputs: keras.KerasTensor, states: Sequence[keras.KerasTensor]
    ) -> dict[str, keras.KerasTensor]:
        """`y(t)`, `(batch, units)`, under the key `y`; takes the arguments of `call`."""
        y = ops.tanh(inputs + ops.matmul(states[0], self.recurrent_kernel) + self.bias)
        return {"y": y}

    def get_initial_state(self, batch_size: int | None = None) -> list[keras.KerasTensor]:
        """`y(0)`: zeros, `(batch_size, units)`."""
        return [ops.zeros((batch_size, self.units), self.compute_dtype)]

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments, for `keras.saving`."""
        config: dict[str, Any] = super().get_config()
        return config | {
            "units": self.units,
            "recurrent_initializer": keras.initializers.serialize(self.recurrent_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }
