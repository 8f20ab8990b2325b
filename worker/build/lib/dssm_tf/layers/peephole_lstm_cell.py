"""The LSTM of the LSTM-RNN sentence embedding: forget gate and diagonal peepholes."""

from __future__ import annotations

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="dssm_tf")
class PeepholeLSTMCell(keras.layers.Layer):
    """One LSTM step whose gates also see the cell state.

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
        peepholes: whether the gates see the cell state; without, `W_p` are zero.
        forget_gate: whether `f(t)` is learned; without, it is 1 (the variant of P16 sec. V) and
            has no parameters: three blocks of `units` stand where there are four with it.
        forget_bias: added to the initial `b_2`: a positive bias lets the first words of a text
            survive from the first update on.
        recurrent_initializer: of the four `W_rec`, `(units, 4 * units)`. The paper has "small
            random numbers" for these and all other parameters, so no `forget_bias`.
        bias_initializer: of the four `b`.
        peephole_initializer: of the three `W_p`.

    Call arguments:
        inputs: `(batch, 4 * units)`: `W_1 l(t) .. W_4 l(t)` side by side; without forget gate
            `(batch, 3 * units)`, without `W_2 l(t)`.
        states: `[y(t-1), c(t-1)]`, each `(batch, units)`.

    Returns:
        `y(t)` and `[y(t), c(t)]`, each `(batch, units)`.

    Reference: Palangi et al. 2016, eq. 2; Palangi et al. 2014, eq. 1-6.
    """

    def __init__(
        self,
        units,
        peepholes=True,
        forget_gate=True,
        forget_bias=1.0,
        recurrent_initializer="orthogonal",
        bias_initializer="zeros",
        peephole_initializer="zeros",
        **kwargs,
    ):
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

    def build(self, *_):
        """Makes `W_rec` `(units, 4 units)`, `W_p` `(3, units)` and `b` `(4 units,)`.

        Without forget gate each is without the block of number 2.
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

    def _bias(self, shape, dtype=None):
        bias = self.bias_initializer(shape, dtype)
        if not self.forget_gate:
            return bias
        return bias + self.forget_bias * ops.cast(ops.arange(shape[0]) // self.units == 1, dtype)

    def call(self, inputs, states, training=False):
        """One time step."""
        found = self.activations(inputs, states)
        return found["y"], [found["y"], found["c"]]

    def activations(self, inputs, states):
        """All of one time step by its name in eq. 2: `i`, `f` (if learned), `o`, `c` and `y`.

        Takes what `call` takes; each is `(batch, units)`.
        """
        y, c = states
        net = inputs + ops.matmul(y, self.recurrent_kernel) + self.bias
        blocks = ops.split(net, self.blocks, axis=-1)
        net_o, net_i, net_g = blocks[0], blocks[-2], blocks[-1]
        if self.peepholes:
            peephole = ops.convert_to_tensor(self.peephole_kernel)
            net_i = net_i + peephole[-1] * c
        found = {"i": ops.sigmoid(net_i)}
        if self.forget_gate:
            net_f = blocks[1] + peephole[1] * c if self.peepholes else blocks[1]
            found["f"] = ops.sigmoid(net_f)
            c = found["f"] * c
        c = c + found["i"] * ops.tanh(net_g)
        if self.peepholes:
            net_o = net_o + peephole[0] * c
        o = ops.sigmoid(net_o)
        return found | {"o": o, "c": c, "y": o * ops.tanh(c)}

    def get_initial_state(self, batch_size=None):
        """`y(0)` and `c(0)`: zeros, `(batch_size, units)` each."""
        return [ops.zeros((batch_size, self.units), self.compute_dtype) for _ in range(2)]

    def get_config(self):
        """Constructor arguments, for `keras.saving`."""
        return super().get_config() | {
            "units": self.units,
            "peepholes": self.peepholes,
            "forget_gate": self.forget_gate,
            "forget_bias": self.forget_bias,
            "recurrent_initializer": keras.initializers.serialize(self.recurrent_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
            "peephole_initializer": keras.initializers.serialize(self.peephole_initializer),
        }
