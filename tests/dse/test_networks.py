"""DSE, SSI and PSI on bags of words: their formulas, in NumPy and double precision."""

from __future__ import annotations

import numpy as np
import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.dse.networks import DSEPair, DSETower, PSIPair, SSIPair
from tests.dse.topics import randomize
from tests.reference.dse import activities

pytestmark = pytest.mark.numeric

WORDS, C = 6, 3


Q, D = (np.random.default_rng(seed).random((rows, WORDS)) for seed, rows in enumerate((4, 5)))


def weight(layer, name) -> np.ndarray:
    return np.asarray(getattr(layer, name).numpy())


def random_model(kind, **options):
    model = kind(WORDS, C, dtype="float64", **options)
    randomize(model)
    return model


def phi(tower, x):
    weights = ([weight(rbm, name) for rbm in tower.rbms] for name in ("kernel", "hidden_bias"))
    return activities(*weights, x)[-1]


def test_the_layers_have_half_half_all_and_c_units():
    tower = DSETower(WORDS, C)
    assert [(m.units, m.hidden_kind) for m in tower.rbms] == [
        (3, "binary"), (3, "binary"), (6, "binary"), (3, "gaussian"),
    ]  # fmt: skip


@pytest.mark.parametrize("options", [{}, {"shared": False, "bilinear": True}])
def test_dse_scores_are_eq_1_of_the_outputs_of_the_unrolled_network(options):
    model = random_model(DSEPair, **options)
    A = weight(model, "relation") if options else np.eye(C)
    expected = phi(model.query_tower, Q) @ A @ phi(model.title_tower, D).T
    np.testing.assert_allclose(model(Q, D), expected, rtol=1e-10)
    assert len(model.trainable_variables) == (2 * 4 * 2 + 1 if options else 4 * 2)


def test_the_initial_matrix_a_is_the_identity():
    np.testing.assert_array_equal(DSEPair(WORDS, C)(Q, D), DSEPair(WORDS, C, bilinear=True)(Q, D))


@pytest.mark.parametrize("kind", [SSIPair, PSIPair])
def test_ssi_and_psi_scores_equal_their_formulas(kind):
    model = random_model(kind)
    U = weight(model, "embedding").T
    expected = Q @ (U.T @ U + np.eye(WORDS)) @ D.T
    if kind is PSIPair:
        P, V, Y = (weight(model, f"cubic_{name}").T for name in ("query", "first", "second"))
        for i in range(C):
            expected += np.outer(Q @ P[i], (D @ V[i]) * (D @ Y[i]))
    np.testing.assert_allclose(model(Q, D), expected, rtol=1e-10)


@pytest.mark.parametrize("kind", [DSETower, SSIPair])
def test_an_embedding_larger_than_the_vocabulary_is_rejected(kind):
    with pytest.raises(UserError, match="dimension 7 was requested for texts over 6 words"):
        kind(WORDS, 7)
    with pytest.raises(UserError, match="dimension 0"):
        kind(WORDS, 0)
