"""Vectors that may be cut: cosines of their first numbers."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from dssm_tf.model.siamese import NestedSiamese
from dssm_tf.towers.dssm import DSSM
from tests.model.test_siamese import CANDIDATES, INPUTS, KNOWN, QUERIES, TITLES
from tests.reference import click_softmax as reference
from tests.rounding import rounding

LENGTHS = (2, 3)
# A cosine: up to 13 trigrams, 8 units and 5, of vectors that come to at most twice their length.
SAME = rounding(26, 2)


def nested(shared: bool = False) -> NestedSiamese:
    keras.utils.set_random_seed(0)
    towers = [DSSM(len(KNOWN), (8, 5)) for _ in range(1 if shared else 2)]
    model = NestedSiamese(*towers, nested_lengths=LENGTHS)
    model.build()
    return model


def exact_cosines(model: NestedSiamese) -> np.ndarray:
    """Of every length, `(batch, columns, lengths + 1)`, in float64."""
    queries = np.array(model.query_tower(INPUTS["query"]), np.float64)
    titles = np.array(model.title_tower(INPUTS["titles"]), np.float64)
    found = np.zeros((*CANDIDATES.shape, len(LENGTHS) + 1))
    for (row, column), title in np.ndenumerate(CANDIDATES):
        if QUERIES[row] and TITLES[title]:
            found[row, column] = [
                reference.cosine(queries[row, :length], titles[title, :length])
                for length in (*LENGTHS, 5)
            ]
    return found


@pytest.mark.numeric
@pytest.mark.parametrize("shared", [False, True])
def test_there_is_a_cosine_of_each_length_and_the_whole_one_is_last(shared):
    model = nested(shared=shared)
    np.testing.assert_allclose(np.array(model(INPUTS)), exact_cosines(model), atol=SAME)


def test_a_saved_model_keeps_its_lengths(tmp_path):
    model = nested()
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.nested_lengths == LENGTHS
    np.testing.assert_array_equal(np.array(again(INPUTS)), np.array(model(INPUTS)))
