"""Precision: values by hand, and its relation to recall."""

import pytest
from hypothesis import given

from tests.evaluation.metrics.one_query import CUTOFFS, queries, value


def test_precision_is_the_fraction_of_the_first_ranks_with_a_relevant_title():
    assert value("precision@3", [1, 3, None], [1, 3, 2]) == 2 / 3
    # Two relevant titles, divided by 10 ranks.
    assert value("precision@10", [1, 3, None], [1, 3, 2]) == 2 / 10


@given(queries(), CUTOFFS)
def test_precision_times_the_cut_off_is_recall_times_the_number_of_relevant_titles(query, k):
    ranks, grades = query
    relevant_titles = value(f"recall@{k}", ranks, grades) * len(ranks)
    assert value(f"precision@{k}", ranks, grades) * k == pytest.approx(relevant_titles)
