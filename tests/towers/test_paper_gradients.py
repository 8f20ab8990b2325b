"""Gradients of Palangi et al. 2016, appendix A, from the loss down to the parameters of towers.

Eq. 8 (loss) is also in tests/losses/test_click_losses.py, eq. 11, 12 and 15 (cosine) in
tests/model/test_siamese.py. The docstrings of tests/reference/tanh_rnn.py and lstm_gradients.py
list the terms that the appendix omits or misprints. test_tower_contract.py compares the full
gradient of every tower with finite differences; tests/layers/test_word_recurrence.py does so for
the truncated gradient of the LSTM.
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
import tensorflow as tf

from dssm_tf.losses import ClickSoftmax
from dssm_tf.model.siamese import Siamese
from tests.labels import unmasked_labels
from tests.numerical_gradients import numerical_gradient
from tests.reference import click_softmax, lstm_gradients, peephole_lstm, tanh_rnn
from tests.reference.letter_trigrams import count_matrix, text_batch, trigrams
from tests.towers.paper_towers import lstm, rnn, vectors_and_gradients

pytestmark = pytest.mark.numeric

QUERY = ["cat", "food"]
TITLES = [["cats", "and", "food"], ["dog", "food"], ["the", "bird", "cage"], ["dog"]]
KNOWN = list(dict.fromkeys(t for text in (QUERY, *TITLES) for word in text for t in trigrams(word)))
UNITS = 4
GAMMA = 10.0


def test_the_gradient_of_the_loss_by_every_parameter_of_the_rnns_is_the_paper_s():
    """Eq. 7 and 8 with eq. 9, 10, 11 and 13: one query, its clicked title and three others."""
    sides = [tanh_rnn.RNNParameters.random(len(KNOWN), UNITS, seed) for seed in (0, 1)]
    model = Siamese(*map(rnn, sides))
    model.build()
    q, *d = (count_matrix(text, KNOWN) for text in (QUERY, *TITLES))
    y_q = tanh_rnn.encode(sides[0], q)
    y_d = [tanh_rnn.encode(sides[1], title) for title in d]
    cosines = np.array([click_softmax.cosine(y_q, y) for y in y_d])
    alpha = click_softmax.alphas(cosines, GAMMA)
    # Delta_j = R(Q, D+) - R(Q, D_j): the derivative of the loss by each cosine.
    cosine_gradients = [alpha.sum(), *-alpha]
    expected = [tanh_rnn.RNNParameters(0 * p.w, 0 * p.rec, 0 * p.b) for p in sides]
    for cosine_gradient, title, y in zip(cosine_gradients, d, y_d, strict=True):
        v_q, v_d = click_softmax.cosine_gradients(y_q, y)
        for total, p, text, v in zip(expected, sides, (q, title), (v_q, v_d), strict=True):
            gradient = tanh_rnn.gradient(p, text, v)
            total.w += cosine_gradient * gradient.w
            total.rec += cosine_gradient * gradient.rec
            total.b += cosine_gradient * gradient.b

    with tf.GradientTape() as tape:
        inputs = {"query": text_batch([QUERY], KNOWN), "titles": text_batch(TITLES, KNOWN)}
        scores = model(inputs | {"candidates": np.array([[0, 1, 2, 3]])})
        loss = ClickSoftmax(GAMMA)(unmasked_labels([[0] * 4]), scores)
    assert float(loss) == pytest.approx(click_softmax.loss(cosines, GAMMA), abs=1e-5)
    closed_forms = []
    for total in expected:
        closed_forms += [np.concatenate([np.zeros((1, UNITS)), total.w.T]), total.rec.T, total.b]
    gradients = tape.gradient(loss, model.trainable_variables)
    for gradient, closed_form in zip(gradients, closed_forms, strict=True):
        # The cosine and the loss are float32.
        np.testing.assert_allclose(np.array(gradient), closed_form, atol=1e-5)


def lstm_gradient(p: peephole_lstm.LSTMParameters, words, output_gradient) -> dict[str, np.ndarray]:
    """Autodiff through the tower, by the paper's names."""
    _, (kernel, recurrent, bias, peepholes) = vectors_and_gradients(
        lstm(p), output_gradient, text_batch([words], KNOWN)
    )
    gradients = {f"p{k}": peepholes[k - 1] for k in (1, 2, 3)}
    for kind, all_gates in (("w", kernel[1:]), ("rec", recurrent), ("b", bias)):
        blocks = np.split(all_gates, 4, axis=-1)
        gradients |= {f"{kind}{k}": block.T for k, block in zip((1, 2, 3, 4), blocks, strict=True)}
    return gradients


def test_the_printed_gradients_of_the_lstm_omit_terms_between_words():
    """Therefore finite differences are the reference of the towers, not the printed gradients."""
    p = peephole_lstm.LSTMParameters.random(len(KNOWN), UNITS, seed=2)
    v = np.random.default_rng(3).normal(size=UNITS)
    words = count_matrix(TITLES[2], KNOWN)
    printed = lstm_gradients.printed_gradients(p, words, v)
    expected = numerical_gradient(lambda: v @ peephole_lstm.encode(p, words), p.b3)
    np.testing.assert_allclose(lstm_gradient(p, TITLES[2], v)["b3"], expected, atol=1e-8)
    assert np.abs(printed["b3"] - expected).max() > 1e-3
    for text, zero_parameters in (
        # In a text of one word, the only omitted term is that of the output gate's peephole.
        (["cat"], ["p1"]),
        # In any text, no term is omitted if only the cell state is passed on.
        (TITLES[2], ["rec1", "rec2", "rec3", "rec4", "p2", "p3"]),
    ):
        for name in zero_parameters:
            getattr(p, name)[...] = 0
        gradients = lstm_gradient(p, text, v)
        expected = lstm_gradients.printed_gradients(p, count_matrix(text, KNOWN), v)
        assert set(expected) == {field.name for field in fields(p)}
        for name, printed_gradient in expected.items():
            np.testing.assert_allclose(gradients[name], printed_gradient, atol=1e-14, err_msg=name)
