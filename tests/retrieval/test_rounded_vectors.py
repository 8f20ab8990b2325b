"""The most similar vectors by rounded vectors are those by exact vectors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba")

from dssm_tf.retrieval import maxsim_kernels, rounded_kernels
from dssm_tf.retrieval.rounded_vectors import RoundedVectors
from tests.retrieval.conftest import random_unit_vectors


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 999),
    dimension=st.sampled_from([1, 3, 16, 128, 130, 300]),
    threshold=st.sampled_from([0.0, 0.2, 0.9]),
    limit=st.sampled_from([None, 1, 5, 200]),
)
def test_the_most_similar_vectors_are_those_by_float64(seed, dimension, threshold, limit):
    vectors = random_unit_vectors(60, dimension, seed)
    vectors[::7] = 0
    vector = random_unit_vectors(1, dimension, seed + 1)[0]
    cosines = vectors.astype(np.float64) @ vector.astype(np.float64)
    expected = np.clip((cosines - threshold) / (1 - threshold), 0, 1).astype(np.float32)
    best = np.argsort(-expected, kind="stable")[:limit]
    best = best[expected[best] > 0]
    rows, similarities = RoundedVectors(vectors, maxsim_kernels).nearest(vector, threshold, limit)
    np.testing.assert_allclose(similarities, expected[best], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(expected[rows], expected[best], rtol=1e-5, atol=1e-6)
    assert len(set(rows.tolist())) == len(best)


def test_of_equal_vectors_the_first_rows_come_first():
    vectors = np.repeat(random_unit_vectors(3, 128, 0), 20, axis=0)
    rows, similarities = RoundedVectors(vectors, maxsim_kernels).nearest(vectors[25], 0.2, 16)
    assert rows.tolist() == [*range(20, 36)]
    assert len(set(similarities.tolist())) == 1


def test_few_cosines_are_computed_exactly():
    vectors = random_unit_vectors(5000, 128, 0)
    rounded = RoundedVectors(vectors, maxsim_kernels)
    for row in range(20):
        near = rounded_kernels._rows_near(
            rounded.rounded, rounded.scales, rounded.error, vectors[row : row + 1], 0.2, 16, 1e-5
        )
        assert len(near) < 100


def test_no_vectors_are_similar_if_there_are_none():
    rounded = RoundedVectors(np.zeros((0, 4), np.float32), maxsim_kernels)
    rows, similarities = rounded.nearest(random_unit_vectors(1, 4, 0)[0], 0.2, 16)
    assert rows.tolist() == similarities.tolist() == []
