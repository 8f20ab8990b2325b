"""Recall: values by hand and properties."""

from hypothesis import given

from tests.evaluation.metrics.one_query import CUTOFFS, queries, value


def test_recall_is_the_fraction_of_the_relevant_titles_within_the_cut_off():
    # Relevant titles: ranks 1 and 3, and one that is not ranked.
    assert value("recall@1", [1, 3, None], [1, 3, 2]) == 1 / 3
    assert value("recall@9", [1, 3, None], [1, 3, 2]) == 2 / 3


@given(queries(), CUTOFFS)
def test_recall_does_not_fall_with_the_cut_off_and_ends_at_the_fraction_that_is_ranked(query, k):
    ranks, grades = query
    assert value(f"recall@{k}", ranks, grades) <= value(f"recall@{k + 1}", ranks, grades)
    ranked = sum(rank is not None for rank in ranks)
    assert value("recall@10", ranks, grades) == ranked / len(ranks)
