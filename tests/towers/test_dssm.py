"""DSSM against its float64 reference."""

from __future__ import annotations

import numpy as np
import pytest

from dssm_tf.towers.clsm import CLSM
from dssm_tf.towers.dssm import DSSM
from tests.reference import dssm as reference
from tests.towers.paper_towers import BATCH, COUNTS, KNOWN

pytestmark = pytest.mark.numeric


@pytest.mark.parametrize("widths", [(3,), (5, 2), (4, 5, 3)])
def test_vectors_are_those_of_the_reference(widths):
    tower = DSSM(len(KNOWN), widths, dtype="float64")
    tower.build()
    generator = np.random.default_rng(0)
    for variable in tower.trainable_variables:
        variable.assign(generator.normal(0, 0.5, variable.shape))
    layers = [(tower.hashing.kernel.numpy()[1:], tower.bias.numpy())]
    layers += [(layer.kernel.numpy(), layer.bias.numpy()) for layer in tower.semantic]
    assert tower.dimension == widths[-1]
    # The last text has only an unknown word; the reference treats it as an empty text.
    bags = np.array([words.sum(axis=0) for words in COUNTS])[:-1]
    vectors = np.array(tower(BATCH))[:-1]
    np.testing.assert_allclose(vectors, reference.encode(bags, layers), atol=1e-14)


@pytest.mark.parametrize("tower", [DSSM, CLSM])
@pytest.mark.parametrize("widths", [(), (0,), (3, -1), (2.5,), (True,), 5, "ab"])
def test_widths_that_are_not_positive_whole_numbers_are_refused(tower, widths):
    with pytest.raises(ValueError, match=f"^{tower.__name__} received widths=.*whole numbers"):
        tower(4, widths=widths)
