"""The LSTM-RNN towers against P16 eq. 2, from words to semantic vector."""

from __future__ import annotations

import numpy as np
import pytest

from dssm_tf.layers import PeepholeLSTMCell
from dssm_tf.towers.bilstm import BidirectionalLSTMRNN
from dssm_tf.towers.lstm import LSTMRNN
from tests.reference import peephole_lstm as reference
from tests.reference.letter_trigrams import count_matrix, text_batch, trigrams

pytestmark = pytest.mark.numeric

SENTENCES = [["cat", "dog", "cat"], [], ["dog"], ["cats", "unseen", "dog", "cat", "aaaa"]]
KNOWN = list(dict.fromkeys(t for word in ("cat", "dog", "aaaa") for t in trigrams(word)))
CELLS = 3


def give(cell: PeepholeLSTMCell, p: reference.LSTMParameters) -> None:
    """Puts the reference's parameters into a cell."""
    cell.recurrent_kernel.assign(p.side_by_side("rec", cell.forget_gate))
    cell.bias.assign(p.side_by_side("b", cell.forget_gate))
    if cell.peepholes:
        cell.peephole_kernel.assign(p.peepholes(cell.forget_gate))


@pytest.mark.parametrize("peepholes", [True, False])
@pytest.mark.parametrize("forget_gate", [True, False])
def test_vectors_are_those_of_the_reference(peepholes, forget_gate):
    variant = {"peepholes": peepholes, "forget_gate": forget_gate}
    p = reference.LSTMParameters.random(len(KNOWN), CELLS, seed=0)
    tower = LSTMRNN(len(KNOWN), CELLS, dtype="float64", **variant)
    tower.build()
    kernel = p.side_by_side("w", forget_gate)
    tower.hashing.kernel.assign(np.concatenate([np.full((1, len(kernel.T)), 9.0), kernel]))
    give(tower.recurrence.cell, p)
    found = np.array(tower(text_batch(SENTENCES, KNOWN)))
    expected = [reference.encode(p, count_matrix(s, KNOWN), **variant) for s in SENTENCES]
    np.testing.assert_allclose(found, expected, atol=1e-13)


def test_without_peepholes_and_forget_gate_it_has_the_number_of_parameters_of_table_iv():
    # 14.4 M: 2 towers, 25,000 trigrams, 3 matrices of 96 cells, less what is not hashing.
    tower = LSTMRNN(25_000, 96, peepholes=False, forget_gate=False)
    tower.build()
    assert 2 * np.prod(tower.hashing.kernel.shape) - 2 * 3 * 96 == 14_400_000  # row 0: padding
    # Beside it only W_rec1, W_rec3, W_rec4 and b_1, b_3, b_4.
    assert tower.count_params() - np.prod(tower.hashing.kernel.shape) == 3 * 96 * (96 + 1)


@pytest.mark.parametrize("peepholes", [True, False])
@pytest.mark.parametrize("forget_gate", [True, False])
def test_its_activations_are_the_gates_and_states_of_the_reference(peepholes, forget_gate):
    variant = {"peepholes": peepholes, "forget_gate": forget_gate}
    sides = [reference.LSTMParameters.random(len(KNOWN), CELLS, seed) for seed in (0, 1)]
    tower = BidirectionalLSTMRNN(len(KNOWN), CELLS, dtype="float64", **variant)
    tower.build()
    kernel = np.concatenate([p.side_by_side("w", forget_gate) for p in sides], axis=1)
    tower.hashing.kernel.assign(np.concatenate([np.full((1, len(kernel.T)), 9.0), kernel]))
    for recurrence, p in zip((tower.left_to_right, tower.right_to_left), sides, strict=True):
        give(recurrence.cell, p)
    found = tower.activations(text_batch(SENTENCES, KNOWN))
    for row, sentence in enumerate(SENTENCES):
        words = count_matrix(sentence, KNOWN)
        for side, order, direction in zip(
            sides, (slice(None), slice(None, None, -1)), tower.directions, strict=True
        ):
            expected = reference.steps(side, words[order], **variant)[order]
            assert found[direction].keys() == {*"iocy", *("f" if forget_gate else "")}
            for name, values in found[direction].items():
                of_words = np.array(values)[row]
                wanted = [step[name] for step in expected]
                np.testing.assert_allclose(
                    of_words[: len(sentence)], np.reshape(wanted, (-1, CELLS)), atol=1e-13
                )
                assert not of_words[len(sentence) :].any()
