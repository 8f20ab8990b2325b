"""DSE, SSI and PSI on bags of words: their formulas, in NumPy and double precision."""

from __future__ import annotations

import numpy as np
import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.dse.networks import DSEPair, DSETower, PSIPair, SSIPair

pytestmark = pytest.mark.numeric

WORDS, C = 6, 3


def bags(rows, seed=0):
    return np.random.default_rng(seed).random((rows, WORDS))


def weight(layer, name) -> np.ndarray:
    return np.asarray(getattr(layer, name).numpy())


def shaken(model):
    """Weights of ordinary size, so that no term is near 0."""
    random = np.random.default_rng(5)
    model.set_weights([random.normal(0, 0.7, w.shape) for w in model.get_weights()])
    return model


def phi(tower, x):
    """W14 sec. 2.1: sigmoid layers, then a linear one."""
    for machine in tower.rbms[:-1]:
        x = 1 / (1 + np.exp(-(x @ weight(machine, "kernel") + weight(machine, "hidden_bias"))))
    top = tower.rbms[-1]
    return x @ weight(top, "kernel") + weight(top, "hidden_bias")


def test_the_layers_are_half_half_whole_and_c():
    tower = DSETower(WORDS, C)
    assert [(m.units, m.hidden_kind) for m in tower.rbms] == [
        (3, "binary"), (3, "binary"), (6, "binary"), (3, "gaussian"),
    ]  # fmt: skip


def test_dse_is_the_dot_product_of_the_unrolled_network_s_outputs():
    model = shaken(DSEPair(WORDS, C, dtype="float64"))
    q, d = bags(4), bags(5, 1)
    expected = phi(model.query_tower, q) @ phi(model.query_tower, d).T
    np.testing.assert_allclose(model(q, d), expected, rtol=1e-10)


def test_two_towers_and_a_learned_a_are_eq_1():
    model = shaken(DSEPair(WORDS, C, shared=False, bilinear=True, dtype="float64"))
    q, d = bags(4), bags(5, 1)
    A = weight(model, "relation")
    expected = phi(model.query_tower, q) @ A @ phi(model.title_tower, d).T
    np.testing.assert_allclose(model(q, d), expected, rtol=1e-10)
    assert len(model.trainable_variables) == 2 * 4 * 2 + 1


def test_a_starts_as_the_identity_so_that_it_changes_nothing():
    q, d = bags(4), bags(5, 1)
    np.testing.assert_array_equal(DSEPair(WORDS, C)(q, d), DSEPair(WORDS, C, bilinear=True)(q, d))


def test_ssi_is_a_linear_embedding_beside_the_words():
    model = shaken(SSIPair(WORDS, C, dtype="float64"))
    q, d = bags(4), bags(5, 1)
    U = weight(model, "embedding").T
    expected = q @ (U.T @ U + np.eye(WORDS)) @ d.T
    np.testing.assert_allclose(model(q, d), expected, rtol=1e-10)


def test_psi_adds_a_product_of_three_embeddings():
    model = shaken(PSIPair(WORDS, C, dtype="float64"))
    q, d = bags(4), bags(5, 1)
    names = ("embedding", "cubic_query", "cubic_first", "cubic_second")
    U, P, V, Y = (weight(model, name).T for name in names)
    expected = q @ (U.T @ U + np.eye(WORDS)) @ d.T
    for i in range(C):
        expected += np.outer(q @ P[i], (d @ V[i]) * (d @ Y[i]))
    np.testing.assert_allclose(model(q, d), expected, rtol=1e-10)


@pytest.mark.parametrize("kind", [DSETower, SSIPair])
def test_an_embedding_larger_than_the_vocabulary_is_refused(kind):
    with pytest.raises(UserError, match="dimension 7 was asked for texts over 6 words"):
        kind(WORDS, 7)
    with pytest.raises(UserError, match="dimension 0"):
        kind(WORDS, 0)
