"""The LSTM-RNN tower against P16 eq. 2, from words to semantic vector."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from dssm_tf.towers import LSTMRNN
from tests.reference import peephole_lstm as reference
from tests.reference.letter_trigrams import count_matrix, text_batch, trigrams

SENTENCES = [["cat", "dog", "cat"], [], ["dog"], ["cats", "unseen", "dog", "cat", "aaaa"]]
KNOWN = list(dict.fromkeys(t for word in ("cat", "dog", "aaaa") for t in trigrams(word)))
CELLS = 3


@pytest.mark.parametrize("peepholes", [True, False])
@pytest.mark.parametrize("forget_gate", [True, False])
def test_vectors_are_those_of_the_reference(peepholes, forget_gate):
    variant = {"peepholes": peepholes, "forget_gate": forget_gate}
    p = reference.LSTMParameters.random(len(KNOWN), CELLS, seed=0)
    tower = LSTMRNN(len(KNOWN), CELLS, dtype="float64", **variant)
    tower.build()
    kernel = np.concatenate([p.w1, p.w2, p.w3, p.w4]).T
    tower.hashing.kernel.assign(np.concatenate([np.full((1, 4 * CELLS), 9.0), kernel]))
    cell = tower.recurrence.cell
    cell.recurrent_kernel.assign(np.concatenate([p.rec1, p.rec2, p.rec3, p.rec4]).T)
    cell.bias.assign(np.concatenate([p.b1, p.b2, p.b3, p.b4]))
    if peepholes:
        cell.peephole_kernel.assign(np.stack([p.p1, p.p2, p.p3]))
    found = np.array(tower(text_batch(SENTENCES, KNOWN)))
    expected = [reference.encode(p, count_matrix(s, KNOWN), **variant) for s in SENTENCES]
    np.testing.assert_allclose(found, expected, atol=1e-13)


def test_the_order_of_the_words_matters():
    keras.utils.set_random_seed(0)
    tower = LSTMRNN(len(KNOWN), CELLS)
    found = np.array(tower(text_batch([["cat", "dog"], ["dog", "cat"]], KNOWN)))
    assert not np.allclose(found[0], found[1], atol=1e-3)


def test_no_cells_are_refused():
    with pytest.raises(ValueError, match=r"cells=0; expected at least 1"):
        LSTMRNN(4, 0)
