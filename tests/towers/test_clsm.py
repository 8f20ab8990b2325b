"""The CLSM tower against Shen et al. 2014: vectors, local features, and gradients."""

from __future__ import annotations

import numpy as np
import pytest

from dssm_tf.towers.clsm import CLSM
from tests.reference import clsm as reference
from tests.towers.paper_towers import BATCH, COUNTS, KNOWN, build, vectors_and_gradients

pytestmark = pytest.mark.numeric

FEATURES = 4


def tower_and_matrices(window: int, widths: tuple[int, ...]):
    """A tower, and its weights as the matrices `W_c` and `W_s` of the paper."""
    generator = np.random.default_rng(0)
    w_c = generator.normal(0, 0.6, (FEATURES, window, len(KNOWN) + 1))
    sizes = zip((FEATURES, *widths), widths, strict=False)
    w_s = [generator.normal(0, 0.8, (units, inputs)) for inputs, units in sizes]
    tower = CLSM(len(KNOWN), window, FEATURES, widths, dtype="float64")
    build(tower, np.concatenate([w_c[:, position, :-1].T for position in range(window)], axis=1))
    if window > 1:
        tower.convolution.padding_word.assign(padding_columns(w_c))
    for layer, matrix in zip(tower.semantic, w_s, strict=True):
        layer.kernel.assign(matrix.T)
    return tower, w_c.reshape(FEATURES, -1), w_s


def padding_columns(w_c: np.ndarray) -> np.ndarray:
    """The columns of `<s>` for each position of the window except the middle."""
    return np.delete(w_c, w_c.shape[1] // 2, axis=1)[..., -1].T


@pytest.mark.parametrize("window", [1, 3, 5, 9])
@pytest.mark.parametrize("widths", [(3,), (5, 2)])
def test_vectors_and_local_features_are_those_of_the_reference(window, widths):
    tower, w_c, w_s = tower_and_matrices(window, widths)
    vectors = [reference.encode(w_c, w_s, words, window) for words in COUNTS]
    np.testing.assert_allclose(np.array(tower(BATCH)), vectors, atol=1e-13)
    for values, words in zip(np.array(tower.activations(BATCH)), COUNTS, strict=True):
        expected = np.full(values.shape, -1.0)  # padding is never the maximum
        if len(words):
            expected[: len(words)] = reference.local_features(w_c, words, window)
        np.testing.assert_allclose(values, expected, atol=1e-13)


@pytest.mark.parametrize("window", [1, 3, 5])
def test_the_gradient_of_the_convolution_is_the_paper_s(window):
    tower, w_c, (w_s,) = tower_and_matrices(window, (3,))
    output_gradients = np.random.default_rng(2).normal(size=(len(COUNTS), 3))
    _, (kernel, *others) = vectors_and_gradients(tower, output_gradients)
    expected = sum(
        reference.cosine_gradient_of_w_c(w_c, w_s, words, window, v_y)
        for words, v_y in zip(COUNTS, output_gradients, strict=True)
        if len(words)
    ).reshape(FEATURES, window, len(KNOWN) + 1)
    for position, block in enumerate(np.split(kernel[1:], window, axis=1)):
        np.testing.assert_allclose(block, expected[:, position, :-1].T, atol=1e-13)
    assert not expected[:, window // 2, -1].any()  # <s> is never the word in the middle
    if window > 1:
        np.testing.assert_allclose(others[0], padding_columns(expected), atol=1e-13)


def test_an_untrained_tower_has_a_zero_padding_word_and_no_bias():
    tower = CLSM(len(KNOWN), 3, FEATURES, (3,))
    tower.build()
    assert not tower.convolution.padding_word.numpy().any()
    assert {weight.name for weight in tower.weights} == {"kernel", "padding_word"}
