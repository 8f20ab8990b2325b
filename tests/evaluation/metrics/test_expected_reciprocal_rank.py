"""Expected reciprocal rank: values by hand and its definition."""

import pytest
from hypothesis import given

from tests.evaluation.metrics.one_query import CUTOFFS, queries, value


def test_expected_reciprocal_rank_weights_each_rank_with_the_probability_of_stopping_there():
    # The highest grade is 3, so R = 1/8, 0, 7/8.
    assert value("err@3", [3, 1, None], [3, 1, 2]) == pytest.approx(1 / 8 + 7 / 8 * 7 / 8 / 3)
    assert value("err@1", [3, 1, None], [3, 1, 2]) == pytest.approx(1 / 8)


@given(queries(), CUTOFFS)
def test_expected_reciprocal_rank_is_the_sum_over_the_ranks_where_a_reader_stops(query, k):
    ranks, grades = query
    grade_at = dict(zip(ranks, grades, strict=True))
    reading, expected = 1.0, 0.0
    for rank in range(1, k + 1):
        stop = (2.0 ** grade_at.get(rank, 0) - 1) / 2.0 ** max(grades)
        expected += reading * stop / rank
        reading *= 1 - stop
    assert value(f"err@{k}", ranks, grades) == pytest.approx(expected)
