"""Ranks of scores: ties, missing scores and NaN."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.evaluation.ranking import top_columns
from tests.relevant_ranks import relevant_ranks

SCORES = st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 0.5000001, 3.0])  # ties and gaps on purpose


def test_scores_that_are_nan_have_no_rank():
    # Every comparison with NaN is false, so a diverged model would rank first everywhere.
    with pytest.raises(ValueError, match="1 of 2 scores are NaN"):
        relevant_ranks(np.array([[np.nan, 1.0]]), np.array([[1, 0]]))


@given(st.lists(SCORES, min_size=1, max_size=14), st.integers(1, 16))
def test_the_top_is_the_head_of_a_stable_sort(scores, depth):
    row = np.array(scores)
    order = [j for j in np.argsort(-row, kind="stable") if not np.isneginf(row[j])]
    assert list(top_columns(row, depth)) == order[:depth]
