"""Reciprocal rank: values by hand and properties."""

import pytest
from hypothesis import given

from tests.evaluation.metrics.one_query import CUTOFFS, queries, value


def test_reciprocal_rank_is_1_over_the_rank_of_the_first_relevant_title():
    assert value("mrr@5", [4, 2, None], [1, 1, 3]) == 1 / 2
    assert value("mrr@1", [4, 2, None], [1, 1, 3]) == 0


@given(queries(), CUTOFFS)
def test_reciprocal_rank_depends_only_on_the_first_relevant_title(query, k):
    ranks, grades = query
    first = min((rank for rank in ranks if rank is not None), default=None)
    assert value(f"mrr@{k}", ranks, grades) == value(f"mrr@{k}", [first], [1])


@given(queries(), CUTOFFS)
def test_reciprocal_rank_equals_average_precision_if_one_title_is_relevant(query, k):
    rank, grade = query[0][:1], query[1][:1]
    assert value(f"mrr@{k}", rank, grade) == pytest.approx(value(f"map@{k}", rank, grade))
