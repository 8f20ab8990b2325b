"""The LSTM layer against P16 eq. 2 in float64, gates, padding, direction and gradients.

The layer keeps the four W_rec side by side, transposed, in the order of the paper's numbers:
output gate (1), forget gate (2) if there is one, input gate (3), cell input (4); `inputs` and
`bias` likewise.
"""

from __future__ import annotations

import keras
import numpy as np
import pytest

from dssm_tf.layers import PeepholeLSTMCell, WordRecurrence
from tests.reference import peephole_lstm as reference
from tests.reference.peephole_lstm import LSTMParameters

pytestmark = pytest.mark.numeric

CELLS = 3
TRIGRAMS = 4
VARIANTS = [
    {"peepholes": True, "forget_gate": True},
    {"peepholes": False, "forget_gate": True},
    {"peepholes": True, "forget_gate": False},
    {"peepholes": False, "forget_gate": False},
]
LENGTHS = [4, 1, 3]
WORDS = np.random.default_rng(5).poisson(1.0, (len(LENGTHS), max(LENGTHS), TRIGRAMS)).astype(float)


def layer(p: LSTMParameters, cell_options=None, **options) -> WordRecurrence:
    cell = PeepholeLSTMCell(CELLS, **(cell_options or {}), dtype="float64")
    made = WordRecurrence(cell, dtype="float64", **options)
    made.build((None, None, None))
    forget_gate = made.cell.forget_gate
    made.cell.recurrent_kernel.assign(p.side_by_side("rec", forget_gate))
    made.cell.bias.assign(p.side_by_side("b", forget_gate))
    if made.cell.peepholes:
        made.cell.peephole_kernel.assign(p.peepholes(forget_gate))
    return made


def inputs(p: LSTMParameters, forget_gate: bool = True) -> np.ndarray:
    """`W_1 l(t) .. W_4 l(t)` side by side, without `W_2 l(t)` where there is no forget gate."""
    return WORDS @ p.side_by_side("w", forget_gate)


def mask() -> np.ndarray:
    return np.arange(max(LENGTHS)) < np.array(LENGTHS)[:, None]


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_state_along_the_way_is_that_of_the_paper(variant):
    p = LSTMParameters.random(TRIGRAMS, CELLS, seed=1)
    made = layer(p, variant)
    state = made.cell.get_initial_state(1)
    words = inputs(p, variant["forget_gate"])[0]
    for word, (y, c) in zip(words, reference.states(p, WORDS[0], **variant), strict=True):
        out, state = made.cell(word[None], state)
        np.testing.assert_allclose(np.array(out)[0], y, atol=1e-14)
        np.testing.assert_allclose(np.array(state[0])[0], y, atol=1e-14)
        np.testing.assert_allclose(np.array(state[1])[0], c, atol=1e-14)


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
    # The output gate sees the new cell state, not the old one.
    assert float(output[0, 0]) == pytest.approx(sigmoid(expected_c) * np.tanh(expected_c))


@pytest.mark.parametrize("backwards", [False, True])
def test_padding_at_the_end_in_the_middle_and_at_the_start_changes_nothing(backwards):
    p = LSTMParameters.random(TRIGRAMS, CELLS, seed=2)
    made = layer(p, go_backwards=backwards)
    words = inputs(p)[:1]
    plain = np.array(made(words, mask=np.ones((1, 4), bool)))
    for places in ([0, 1, 2, 3], [0, 2, 3, 6], [3, 4, 5, 6], [1, 2, 4, 5]):
        spread = np.random.default_rng(0).normal(size=(1, 7, 4 * CELLS))  # junk at padding
        spread[:, places] = words
        found = np.array(made(spread, mask=np.isin(np.arange(7), places)[None]))
        np.testing.assert_allclose(found, plain, atol=1e-14)


def test_without_a_forget_gate_nothing_is_stored_for_it():
    cell = PeepholeLSTMCell(5, forget_gate=False)
    cell.build()
    shapes = {weight.name: tuple(weight.shape) for weight in cell.weights}
    assert shapes == {"recurrent_kernel": (5, 15), "bias": (15,), "peephole_kernel": (2, 5)}
    assert not cell.bias.numpy().any()


def test_only_the_forget_gate_starts_with_a_bias_unless_told_otherwise():
    cell = PeepholeLSTMCell(2, forget_bias=1.5)
    cell.build()
    assert cell.bias.numpy().tolist() == [0, 0, 1.5, 1.5, 0, 0, 0, 0]
    assert not cell.peephole_kernel.numpy().any()
    cell = PeepholeLSTMCell(1, forget_bias=1.5, bias_initializer=keras.initializers.Constant(0.25))
    cell.build()
    assert cell.bias.numpy().tolist() == [0.25, 1.75, 0.25, 0.25]
