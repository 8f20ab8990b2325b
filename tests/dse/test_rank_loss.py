"""Rank loss computed from ranks equals its definition by triples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from dssm_tf.dse.rank_loss import rank_loss
from tests.reference import dse as reference


def test_a_case_by_hand():
    scores = np.array([[3.0, 1.0, 2.0, 1.0], [0.0, 0.0, 0.0, 1.0]])
    relevant = sparse.csr_matrix([[True, True, False, False], [True, True, True, False]])
    # 3 beats 2 and 1; 1 loses to 2 and ties with 1: 1.5 wrong of 4. All three zeros lose to 1.
    assert rank_loss(scores[:1], relevant[:1]) == 37.5
    assert rank_loss(scores, relevant) == pytest.approx(100 * 4.5 / 7)


@given(
    shape=st.tuples(st.integers(1, 6), st.integers(2, 9)),
    levels=st.sampled_from([2, 4, 1000]),
    seed=st.integers(0, 10_000),
    block=st.integers(1, 4),
)
def test_rank_loss_equals_the_enumeration_of_triples(shape, levels, seed, block):
    random = np.random.default_rng(seed)
    scores = random.integers(levels, size=shape) / 7
    relevant, ignored = (
        sparse.csr_matrix(random.random(shape) < density) for density in (0.4, 0.2)
    )
    right, other = (relevant > ignored).toarray(), ~(relevant + ignored).toarray()
    if not (right.sum(axis=1) * other.sum(axis=1)).any():
        with pytest.raises(ValueError, match="no triple"):
            rank_loss(scores, relevant, ignored)
        return
    expected = pytest.approx(reference.rank_loss(scores, right, other))
    assert rank_loss(scores, relevant, ignored) == expected
    assert rank_loss(scores.__getitem__, relevant, ignored, block=block) == expected


def test_rank_loss_is_1_minus_the_auc_of_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    random = np.random.default_rng(0)
    scores, relevant = random.integers(5, size=(1, 60)) / 3, random.random((1, 60)) < 0.3
    expected = 100 * (1 - metrics.roc_auc_score(relevant[0], scores[0]))
    assert rank_loss(scores, sparse.csr_matrix(relevant)) == pytest.approx(expected)


def test_a_nan_score_is_rejected():
    with pytest.raises(ValueError, match="NaN"):
        rank_loss(np.array([[np.nan, 1.0]]), sparse.csr_matrix([[True, False]]))
