"""The LSTM-RNN towers against Palangi et al. 2016, eq. 2, from words to semantic vector."""

from __future__ import annotations

import numpy as np
import pytest

from dssm_tf.towers.lstm import LSTMRNN
from tests.reference.peephole_lstm import LSTMParameters, steps
from tests.towers.paper_towers import BATCH, COUNTS, KNOWN, lstm

pytestmark = pytest.mark.numeric

CELLS = 3


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("peepholes", [True, False])
@pytest.mark.parametrize("forget_gate", [True, False])
def test_vectors_gates_and_states_are_those_of_the_reference(directions, peepholes, forget_gate):
    variant = {"peepholes": peepholes, "forget_gate": forget_gate}
    sides = [LSTMParameters.random(len(KNOWN), CELLS, seed) for seed in range(directions)]
    tower = lstm(*sides, **variant)
    vectors, activations = np.array(tower(BATCH)), tower.activations(BATCH)
    for row, words in enumerate(COUNTS):
        last_outputs = []
        for p, direction, stride in zip(sides, tower.directions, (1, -1), strict=False):
            order = slice(None, None, stride)  # the second reads from the right
            expected_steps = steps(p, words[order], **variant)
            last_outputs.append(expected_steps[-1]["y"] if expected_steps else np.zeros(CELLS))
            assert activations[direction].keys() == {*"iocy", *("f" if forget_gate else "")}
            for name, values in activations[direction].items():
                expected = np.zeros(values.shape[1:])  # zero at padding
                for t, step in enumerate(expected_steps[order]):
                    expected[t] = step[name]
                np.testing.assert_allclose(np.array(values)[row], expected, atol=1e-13)
        np.testing.assert_allclose(vectors[row], np.concatenate(last_outputs), atol=1e-13)


def test_without_peepholes_and_forget_gate_the_cell_has_three_matrices_and_biases():
    tower = LSTMRNN(len(KNOWN), 96, peepholes=False, forget_gate=False)
    tower.build()
    # W_rec1, W_rec3, W_rec4 and b_1, b_3, b_4.
    assert tower.count_params() - np.prod(tower.hashing.kernel.shape) == 3 * 96 * (96 + 1)
