"""The LSTM of the LSTM-RNN sentence embedding: forget gate and diagonal peepholes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="dssm_tf")
class PeepholeLSTMCell(keras.layers.Layer):
    """One LSTM step whose gates also read the cell state.

    Differs from `keras.layers.LSTMCell` by diagonal peepholes (the input and forget gates read
    `c(t-1)`, the output gate reads `c(t)`) and by an input that is already multiplied by
    `W_1 .. W_4`, which `WordHashing` did once per distinct word.

        y_g(t) = tanh(W_4 l(t) + W_rec4 y(t-1) + b_4)
        i(t) = sigmoid(W_3 l(t) + W_rec3 y(t-1) + W_p3 c(t-1) + b_3)
        f(t) = sigmoid(W_2 l(t) + W_rec2 y(t-1) + W_p2 c(t-1) + b_2)
        c(t) = f(t) c(t-1) + i(t) y_g(t)
        o(t) = sigmoid(W_1 l(t) + W_rec1 y(t-1) + W_p1 c(t) + b_1)
        y(t) = o(t) tanh(c(t))

    Args:
        units: number of cells.
        peepholes: whether the gates read the cell state; without peepholes, `W_p` is zero.
        forget_gate: whether `f(t)` is learned. Without it, `f(t)` is 1 (Palangi et al. 2016, sec.
            V) and has no parameters: matrices have three blocks of `units` columns instead of four.
        forget_bias: added to the initial `b_2`. With a positive bias, the first words of a text
            influence the vector from the first update on.
        recurrent_initializer: initializes the four `W_rec`, `(units, 4 * units)`. The paper has
            "small random numbers" for these and all other parameters, and no `forget_bias`.
        bias_initializer: initializes the four `b`.
        peephole_initializer: initializes the three `W_p`.

    Call arguments:
        inputs: `(batch, 4 * units)`, the concatenated `W_1 l(t) .. W_4 l(t)`; without forget gate
            `(batch, 3 * units)`, because `W_2 l(t)` is missing.
        states: `[y(t-1), c(t-1)]`, each `(batch, units)`.

    Returns:
        `y(t)` and `[y(t), c(t)]`, each `(batch, units)`.

    Reference: Palangi et al. 2016, eq. 2; Palangi et al. 2014, eq. 1-6.
    """

    def __init__(
        self,
        units: int,
        peepholes: bool = True,
        forget_gate: bool = True,
        forget_bias: float = 1.0,
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        peephole_initializer: Any = "zeros",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if units < 1:
            raise ValueError(f"PeepholeLSTMCell received units={units}; expected at least 1.")
        self.units = units
        self.peepholes = peepholes
        self.forget_gate = forget_gate
        self.blocks = 4 if forget_gate else 3
        self.forget_bias = forget_bias
        self.recurrent_initializer = keras.initializers.get(recurrent_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.peephole_initializer = keras.initializers.get(peephole_initializer)
        self.state_size = [units, units]
        self.output_size = units

    def build(self, *_: Any) -> None:
        """Makes `W_rec` `(units, 4 * units)`, `W_p` `(3, units)` and `b` `(4 * units,)`.

        Without forget gate, each lacks the block of gate 2.
        """
        units, blocks = self.units, self.blocks
        self.recurrent_kernel = self.add_weight(
            name="recurrent_kernel",
            shape=(units, blocks * units),
            initializer=self.recurrent_initializer,
        )
        self.bias = self.add_weight(name="bias", shape=(blocks * units,), initializer=self._bias)
        if self.peepholes:
            self.peephole_kernel = self.add_weight(
                name="peephole_kernel",
                shape=(blocks - 1, units),
                initializer=self.peephole_initializer,
            )
        self.built = True

    def _bias(self, shape: Sequence[int], dtype: str | None = None) -> keras.KerasTensor:
        """The initial biases, with `forget_bias` added to those of the forget gate."""
        bias = self.bias_initializer(shape, dtype)
        if not self.forget_gate:
            return bias
        return bias + self.forget_bias * ops.cast(ops.arange(shape[0]) // self.units == 1, dtype)

    def call(
        self,
        inputs: keras.KerasTensor,
        states: Sequence[keras.KerasTensor],
        training: bool = False,
    ) -> tuple[keras.KerasTensor, list[keras.KerasTensor]]:
        """One time step; see the class."""
        del training
        step = self.activations(inputs, states)
        return step["y"], [step["y"], step["c"]]

    def activations(
        self, inputs: keras.KerasTensor, states: Sequence[keras.KerasTensor]
    ) -> dict[str, keras.KerasTensor]:
        """Gates, cell state and output of one time step; takes the arguments of `call`.

        Returns:
            By the names of eq. 2, `i`, `f` (if learned), `o`, `c` and `y`, each `(batch, units)`.
        """
        y, c = states
        net = inputs + ops.matmul(y, self.recurrent_kernel) + self.bias
        blocks = ops.split(net, self.blocks, axis=-1)
        net_o, net_i, net_g = blocks[0], blocks[-2], blocks[-1]
        if self.peepholes:
            peephole = ops.convert_to_tensor(self.peephole_kernel)
            net_i = net_i + peephole[-1] * c
        gates = {"i": ops.sigmoid(net_i)}
        if self.forget_gate:
            net_f = blocks[1] + peephole[1] * c if self.peepholes else blocks[1]
            gates["f"] = ops.sigmoid(net_f)
            c = gates["f"] * c
        c = c + gates["i"] * ops.tanh(net_g)
        if self.peepholes:
            net_o = net_o + peephole[0] * c
        o = ops.sigmoid(net_o)
        return gates | {"o": o, "c": c, "y": o * ops.tanh(c)}

    def get_initial_state(self, batch_size: int | None = None) -> list[keras.KerasTensor]:
        """`y(0)` and `c(0)`: zeros, each `(batch_size, units)`."""
        return [ops.zeros((batch_size, self.units), self.compute_dtype) for _ in range(2)]

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments, for `keras.saving`."""
        config: dict[str, Any] = super().get_config()
        return config | {
            "units": self.units,
            "peepholes": self.peepholes,
            "forget_gate": self.forget_gate,
            "forget_bias": self.forget_bias,
            "recurrent_initializer": keras.initializers.serialize(self.recurrent_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
            "peephole_initializer": keras.initializers.serialize(self.peephole_initializer),
        }
