"""DSSM against its float64 reference."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from dssm_tf.towers.dssm import DSSM
from tests.reference import dssm as reference
from tests.reference.letter_trigrams import count_matrix, text_batch, trigrams

pytestmark = pytest.mark.numeric

SENTENCES = [["cat", "dog", "cat"], [], ["dog"], ["unseen", "cats"]]
KNOWN = list(dict.fromkeys(t for word in ("cat", "dog") for t in trigrams(word)))


def bags() -> np.ndarray:
    return np.array([count_matrix(words, KNOWN).sum(axis=0) for words in SENTENCES])


@pytest.mark.parametrize("widths", [(3,), (5, 2), (4, 5, 3)])
def test_vectors_are_those_of_the_reference(widths):
    keras.utils.set_random_seed(0)
    tower = DSSM(len(KNOWN), widths, dtype="float64")
    tower.build()
    generator = np.random.default_rng(0)
    for variable in tower.trainable_variables:
        variable.assign(generator.normal(0, 0.5, variable.shape))
    layers = [(tower.hashing.kernel.numpy()[1:], tower.bias.numpy())]
    layers += [(layer.kernel.numpy(), layer.bias.numpy()) for layer in tower.semantic]
    assert tower.dimension == widths[-1]
    found = np.array(tower(text_batch(SENTENCES, KNOWN)))
    np.testing.assert_allclose(found, reference.encode(bags(), layers), atol=1e-14)
