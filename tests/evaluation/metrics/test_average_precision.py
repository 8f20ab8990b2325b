"""Average precision: values by hand and properties."""

import pytest
from hypothesis import given

from tests.evaluation.metrics.one_query import CUTOFFS, queries, value


def test_average_precision_is_the_mean_precision_at_the_relevant_titles():
    # Precision 1/1 at rank 1, 2/3 at rank 3, and 0 for the title that is not ranked.
    assert value("map", [3, 1, None], [1, 3, 2]) == pytest.approx((1 + 2 / 3 + 0) / 3)
    # At a cut-off of 2 the title at rank 3 adds nothing.
    assert value("map@2", [3, 1, None], [1, 3, 2]) == pytest.approx(1 / 3)


@given(queries(), CUTOFFS)
def test_average_precision_is_between_its_values_with_every_relevant_title_last_or_first(query, k):
    ranks, grades = query
    ranked = sum(rank is not None for rank in ranks)
    not_ranked = [None] * (len(ranks) - ranked)
    first = [*range(1, ranked + 1), *not_ranked]
    last = [*range(11 - ranked, 11), *not_ranked]  # ranks are at most 10
    values = [value(f"map@{k}", order, grades) for order in (last, ranks, first)]
    assert values == pytest.approx(sorted(values))
    assert values[-1] == pytest.approx(min(ranked, k) / len(ranks))
