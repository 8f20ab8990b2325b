"""The plain recurrence that the LSTM-RNN is compared with."""

from __future__ import annotations

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="dssm_tf")
class TanhCell(keras.layers.Layer):
    """One step of a recurrent network: `y(t) = tanh(W l(t) + W_rec y(t-1) + b)`.

    Differs from `keras.layers.SimpleRNNCell` by an input that is already multiplied by `W`,
    which `WordHashing` did once per distinct word.

    Args:
        units: number of neurons.
        recurrent_initializer: of `W_rec`, `(units, units)`; the paper has "small random numbers"
            for all parameters.
        bias_initializer: of `b`.

    Call arguments:
        inputs: `(batch, units)`: `W l(t)`.
        states: `[y(t-1)]`, `(batch, units)`.

    Returns:
        `y(t)` and `[y(t)]`, `(batch, units)`.

    Reference: Palangi et al. 2016, eq. 1.
    """

    def __init__(
        self, units, recurrent_initializer="orthogonal", bias_initializer="zeros", **kwargs
    ):
        super().__init__(**kwargs)
        if units < 1:
            raise ValueError(f"TanhCell received units={units}; expected at least 1.")
        self.units = units
        self.recurrent_initializer = keras.initializers.get(recurrent_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.state_size = [units]
        self.output_size = units

    def build(self, *_):
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

    def call(self, inputs, states, training=False):
        """One time step."""
        y = self.activations(inputs, states)["y"]
        return y, [y]

    def activations(self, inputs, states):
        """`y(t)`, `(batch, units)`, by its name; takes what `call` takes."""
        y = ops.tanh(inputs + ops.matmul(states[0], self.recurrent_kernel) + self.bias)
        return {"y": y}

    def get_initial_state(self, batch_size=None):
        """`y(0)`: zeros, `(batch_size, units)`."""
        return [ops.zeros((batch_size, self.units), self.compute_dtype)]

    def get_config(self):
        """Constructor arguments, for `keras.saving`."""
        return super().get_config() | {
            "units": self.units,
            "recurrent_initializer": keras.initializers.serialize(self.recurrent_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }
