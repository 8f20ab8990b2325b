"""Concordance: values by hand, its definition and properties."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dssm_tf.evaluation.metrics.concordance import concordance, concordance_per_query
from tests.reference import judged_titles as reference

# Ties, close grades, and titles that are not ranked, on purpose.
SCORES = st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 0.5 + 1e-12, 3.0])
FINITE_SCORES = SCORES.filter(np.isfinite)
GRADES = st.sampled_from([0, 0.33, 0.5, 1, 0.7, 0.2, 1.33, 2, 2.33, 3])


def approx(value):
    return pytest.approx(value, nan_ok=True)


def judged_titles(score):
    """A strategy: scores and grades of one query's titles, `(2, titles)`."""
    return st.lists(st.tuples(score, GRADES), min_size=1, max_size=12).map(
        lambda pairs: np.array(pairs, dtype=float).T
    )


def test_pairs_in_the_order_of_their_grades_are_counted():
    # Pairs of grades (2, 1), (2, 0) and (1, 0): the first two are in the right order, the last not.
    assert concordance(np.array([9.0, 1.0, 5.0]), np.array([2.0, 1.0, 0.0])) == approx(2 / 3)
    # A pair with equal scores counts half.
    assert concordance(np.array([9.0, 1.0, 1.0]), np.array([2.0, 1.0, 0.0])) == approx(2.5 / 3)


def test_titles_that_are_not_ranked_are_last_and_equal_to_each_other():
    scores = np.array([-9.0, -np.inf, -np.inf])
    # (2, 1) and (2, 0) are right; (1, 0) are both not ranked.
    assert concordance(scores, np.array([2.0, 1.0, 0.0])) == approx(2.5 / 3)
    # (2, 1) is wrong, (2, 0) are both not ranked, and (1, 0) is right.
    assert concordance(scores, np.array([1.0, 2.0, 0.0])) == approx(1.5 / 3)


def test_pairs_of_similar_grades_are_not_counted():
    # A pair counts if its grades differ by at least 0.5, up to rounding: in floats, 0.7 - 0.2 is a
    # little below 0.5, and the pair counts.
    assert 0.7 - 0.2 < 0.5
    assert concordance(np.array([2.0, 1.0]), np.array([0.7, 0.2])) == 1
    assert np.isnan(concordance(np.array([2.0, 1.0]), np.array([0.69, 0.2])))
    assert np.isnan(concordance(np.array([2.0, 1.0]), np.array([1.0, 1.0])))
    # The wrong pair (0.33, 0) is not counted; (1, 0) and (1, 0.33) are right.
    assert concordance(np.array([9.0, 1.0, 5.0]), np.array([1.0, 0.33, 0.0])) == 1


@given(judged_titles(SCORES))
def test_concordance_equals_its_definition(case):
    assert concordance(*case) == approx(reference.concordance(*case))


@given(judged_titles(FINITE_SCORES))
def test_reversed_scores_have_the_complement(case):
    scores, grades = case
    assert concordance(-scores, grades) == approx(1 - concordance(scores, grades))


@given(judged_titles(FINITE_SCORES), st.integers(0, 9))
def test_only_the_order_of_scores_matters(case, seed):
    scores, grades = case
    ranks = stats.rankdata(scores, "dense")
    order = np.random.default_rng(seed).permutation(len(scores))
    assert concordance(2.0 ** ranks[order], grades[order]) == approx(concordance(scores, grades))


@given(st.lists(FINITE_SCORES, min_size=1, max_size=9), st.lists(FINITE_SCORES, min_size=1))
def test_with_two_grades_it_is_the_area_under_the_roc_curve(good, bad):
    scores = np.array([*good, *bad])
    grades = np.repeat([1.0, 0.0], [len(good), len(bad)])
    # Mann and Whitney's U counts the pairs in which the first sample is larger, ties half.
    u = stats.mannwhitneyu(good, bad).statistic
    assert concordance(scores, grades) == approx(u / (len(good) * len(bad)))


@given(st.lists(judged_titles(SCORES), min_size=1, max_size=4))
@settings(max_examples=60)
def test_queries_are_independent_and_titles_that_a_run_lacks_are_not_ranked(cases):
    rows = [
        (query, title, score, grade)
        for query, case in enumerate(cases)
        for title, (score, grade) in enumerate(case.T)
    ]
    schema = {"query": int, "title": int, "score": float, "grade": float}
    # The run lacks the titles with the score -inf and is reversed. One more query has no titles, so
    # its concordance is NaN.
    frame = pl.DataFrame(rows, schema, orient="row")
    run = frame.drop("grade").filter(pl.col("score") > -np.inf).reverse()
    values = concordance_per_query(run, frame.drop("score"), len(cases) + 1)
    expected = [*(reference.concordance(*case) for case in cases), np.nan]
    assert values == pytest.approx(expected, nan_ok=True)
