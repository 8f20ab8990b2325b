"""Rounded vectors find all vectors near another one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba")

from dssm_tf.retrieval import maxsim_kernels
from dssm_tf.retrieval.rounded_vectors import RoundedVectors
from tests.retrieval.conftest import random_unit_vectors


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 999),
    dimension=st.sampled_from([1, 2, 3, 16, 128]),
    cosine=st.sampled_from([0.0, 0.2, 0.9]),
    limit=st.sampled_from([None, 1, 5, 200]),
)
def test_no_near_vector_is_missed(seed, dimension, cosine, limit):
    vectors = random_unit_vectors(60, dimension, seed)
    vectors[::7] = 0
    vector = random_unit_vectors(1, dimension, seed + 1)[0]
    cosines = vectors.astype(np.float64) @ vector.astype(np.float64)
    best = np.argsort(-cosines, kind="stable")[:limit]
    expected = set(best[cosines[best] > cosine].tolist())
    rows = RoundedVectors(vectors, maxsim_kernels).near(vector, cosine, limit).tolist()
    if len(set(cosines.round(6))) < len(cosines):  # of equal vectors, any are the nearest
        assert {cosines[row].round(6) for row in expected} <= {
            cosines[row].round(6) for row in rows
        }
    else:
        assert expected <= set(rows)
    assert rows == sorted(set(rows))


def test_few_other_vectors_are_returned():
    vectors = random_unit_vectors(5000, 128, 0)
    rounded = RoundedVectors(vectors, maxsim_kernels)
    for row in range(20):
        assert len(rounded.near(vectors[row], 0.2, 16)) < 100


def test_no_vectors_are_near_if_there_are_none():
    rounded = RoundedVectors(np.zeros((0, 4), np.float32), maxsim_kernels)
    assert rounded.near(random_unit_vectors(1, 4, 0)[0], 0.2, 16).tolist() == []
