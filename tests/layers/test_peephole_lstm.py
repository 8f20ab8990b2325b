"""The LSTM cell against Palangi et al. 2016, eq. 2 in float64.

The cell has the four W_rec concatenated and transposed, in the order of the paper's numbers:
output gate (1), forget gate (2) if there is one, input gate (3), cell input (4). Inputs and bias
have the same order.
"""

from __future__ import annotations

import keras
import numpy as np
import pytest

from dssm_tf.layers import PeepholeLSTMCell
from tests.layers.cells import assign_parameters
from tests.reference import peephole_lstm as reference
from tests.reference.peephole_lstm import LSTMParameters

pytestmark = pytest.mark.numeric


@pytest.mark.parametrize("peepholes", [True, False])
@pytest.mark.parametrize("forget_gate", [True, False])
def test_the_states_after_each_word_are_those_of_the_paper(peepholes, forget_gate):
    variant = {"peepholes": peepholes, "forget_gate": forget_gate}
    p = LSTMParameters.random(trigrams=4, cells=3, seed=1)
    words = np.random.default_rng(5).poisson(1.0, (4, 4)).astype(float)
    cell = assign_parameters(PeepholeLSTMCell(3, **variant, dtype="float64"), p)
    state = cell.get_initial_state(1)
    for word, (y, c) in zip(words, reference.states(p, words, **variant), strict=True):
        out, state = cell(word[None] @ p.concatenated("w", forget_gate), state)
        for value, expected in zip((out, *state), (y, y, c), strict=True):
            np.testing.assert_allclose(np.array(value)[0], expected, atol=1e-14)


def test_one_step_by_hand():
    cell = PeepholeLSTMCell(1, dtype="float64")
    cell.build()
    cell.recurrent_kernel.assign(np.zeros((1, 4)))
    cell.bias.assign(np.zeros(4))
    cell.peephole_kernel.assign([[1.0], [2.0], [3.0]])  # W_p1 (o), W_p2 (f), W_p3 (i)
    # y_g = tanh(log 2) = 0.6. With c(t-1) = 1: i = sigmoid(3), f = sigmoid(2).
    output, (_, c) = cell(
        np.array([[0.0, 0.0, 0.0, np.log(2)]]), [np.zeros((1, 1)), np.ones((1, 1))]
    )
    sigmoid = reference.sigmoid
    expected_c = sigmoid(2.0) + 0.6 * sigmoid(3.0)
    assert float(c[0, 0]) == pytest.approx(expected_c, abs=1e-15)
    # The output gate reads the new cell state.
    assert float(output[0, 0]) == pytest.approx(sigmoid(expected_c) * np.tanh(expected_c))


def test_without_a_forget_gate_there_are_no_weights_for_it():
    cell = PeepholeLSTMCell(5, forget_gate=False)
    cell.build()
    shapes = {weight.name: tuple(weight.shape) for weight in cell.weights}
    assert shapes == {"recurrent_kernel": (5, 15), "bias": (15,), "peephole_kernel": (2, 5)}
    assert not cell.bias.numpy().any()


def test_by_default_only_the_forget_gate_has_an_initial_bias():
    cell = PeepholeLSTMCell(2)
    cell.build()
    assert cell.bias.numpy().tolist() == [0, 0, 1, 1, 0, 0, 0, 0]
    assert not cell.peephole_kernel.numpy().any()
    cell = PeepholeLSTMCell(1, forget_bias=1.5, bias_initializer=keras.initializers.Constant(0.25))
    cell.build()
    assert cell.bias.numpy().tolist() == [0.25, 1.75, 0.25, 0.25]
