"""NDCG: values by hand and properties."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given

from dssm_tf.evaluation import metrics, tf_ranking
from tests.evaluation.metrics.one_query import CUTOFFS, queries, value


@pytest.mark.parametrize("per_query", [metrics.per_query, tf_ranking.per_query])
def test_ndcg_divides_the_gain_by_that_of_the_best_order(per_query):
    ranks = pl.DataFrame({"query": [0, 0, 0], "rank": [1, 3, None], "grade": [1, 3, 2]})
    values = per_query(ranks, 1, ["ndcg@1", "ndcg@3"])
    # NDCG@1 = (2^1 - 1) / (2^3 - 1)
    assert values["ndcg@1"][0] == pytest.approx(1 / 7, abs=1e-6)
    # DCG@3 = 1/log2(2) + 0 + 7/log2(4); best order 3, 2, 1: 7/1 + 3/log2(3) + 1/2
    expected = (1 + 3.5) / (7 + 3 / np.log2(3) + 0.5)
    assert values["ndcg@3"][0] == pytest.approx(expected, abs=1e-6)


@given(queries(), CUTOFFS)
def test_ndcg_is_1_for_the_best_order_and_rises_when_a_title_moves_up(query, k):
    ranks, grades = query
    best = list(range(1, len(grades) + 1))
    assert value(f"ndcg@{k}", best, sorted(grades, reverse=True)) == pytest.approx(1)
    if ranks[0] is not None and ranks[0] <= k and ranks[0] - 1 not in (0, *ranks):
        higher = [ranks[0] - 1, *ranks[1:]]
        assert value(f"ndcg@{k}", higher, grades) > value(f"ndcg@{k}", ranks, grades)
