import ir_measures
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import AP, RR, P, R, nDCG

from dssm_tf.common.errors import UserError
from dssm_tf.evaluation import metrics, tf_ranking
from dssm_tf.evaluation.metrics import parse_metric
from dssm_tf.evaluation.ranking import top_columns
from tests.reference import ranking_metrics as reference
from tests.relevant_ranks import relevant_ranks

NAMES = ("ndcg@1", "ndcg@3", "ndcg@10", "mrr@10", "mrr@2", "recall@10", "precision@3", "map")
PROVIDERS = [metrics.per_query, tf_ranking.per_query]


@pytest.mark.parametrize("per_query", PROVIDERS)
def test_values_derived_by_hand(per_query):
    # Ranking order: b (grade 1), a (0), c (3); d (2) is not ranked.
    scores = np.array([[0.2, 0.9, 0.1, -np.inf]])
    grades = np.array([[0, 1, 3, 2]])
    names = ["ndcg@1", "ndcg@3", "mrr@3", "recall@1", "precision@10", "map", "err@3", "err@1"]
    values = per_query(*relevant_ranks(scores, grades), names)
    # NDCG@1 = (2^1 - 1) / (2^3 - 1)
    assert values["ndcg@1"][0] == pytest.approx(1 / 7)
    # DCG@3 = 1/log2(2) + 0 + 7/log2(4); best order 3, 2, 1: 7/1 + 3/log2(3) + 1/2
    assert values["ndcg@3"][0] == pytest.approx((1 + 3.5) / (7 + 3 / np.log2(3) + 0.5))
    assert values["mrr@3"][0] == 1
    assert values["recall@1"][0] == pytest.approx(1 / 3)
    assert values["precision@10"][0] == pytest.approx(2 / 10)
    # precision 1/1 at rank 1, 2/3 at rank 3, nothing for the title that is not ranked
    assert values["map"][0] == pytest.approx((1 + 2 / 3 + 0) / 3)
    # The highest grade is 3, so R = 1/8, 0, 7/8.
    assert values["err@3"][0] == pytest.approx(1 / 8 + 7 / 8 * 7 / 8 / 3)
    assert values["err@1"][0] == pytest.approx(1 / 8)


@pytest.mark.parametrize("per_query", PROVIDERS)
def test_scores_closer_than_single_precision_keep_their_order(per_query):
    scores = np.array([[1.0, 1.0 + 1e-12]])
    assert per_query(*relevant_ranks(scores, np.array([[0, 1]])), ["mrr@1"])["mrr@1"] == [1.0]


GRADES = st.sampled_from([0, 0, 0, 1, 2, 3, 0.33, 4])
INTEGER_GRADES = st.sampled_from([0, 0, 1, 2, 3, 4])


@st.composite
def judged_scores(draw, grade=GRADES):
    queries, titles = draw(st.integers(1, 4)), draw(st.integers(1, 14))
    score = st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 0.5000001, 3.0])  # ties and gaps on purpose
    rows = st.lists(score, min_size=titles, max_size=titles)
    row_grades = st.lists(grade, min_size=titles, max_size=titles)
    return (
        np.array(draw(st.lists(rows, min_size=queries, max_size=queries))),
        np.array(draw(st.lists(row_grades, min_size=queries, max_size=queries)), dtype=float),
    )


def by_definition(scores, grades, name):
    values = []
    for row, row_grades in zip(scores, grades, strict=True):
        ranked = ~np.isneginf(row)
        order = reference.ranked_grades(row[ranked], row_grades[ranked])
        missing = [g for g in row_grades[~ranked] if g > 0]
        some = any(row_grades > 0)
        values.append(reference.metric(name, order, missing) if some else np.nan)
    return values


@given(judged_scores())
@settings(max_examples=150, deadline=None)
def test_numpy_and_tf_ranking_equal_the_definitions(case):
    scores, grades = case
    ranks = relevant_ranks(scores, grades)
    numpy, tensorflow = metrics.per_query(*ranks, NAMES), tf_ranking.per_query(*ranks, NAMES)
    for name in NAMES:
        expected = by_definition(scores, grades, name)
        assert numpy[name] == pytest.approx(expected, rel=1e-12, abs=1e-12, nan_ok=True), name
        assert tensorflow[name] == pytest.approx(expected, abs=1e-6, nan_ok=True), name


# By default the gain of ir_measures' nDCG is the grade, as in trec_eval; here it is 2^grade - 1.
GAINS = {grade: 2**grade - 1 for grade in range(5)}
IR_MEASURES = {
    "ndcg@1": nDCG(gains=GAINS) @ 1,
    "ndcg@3": nDCG(gains=GAINS) @ 3,
    "ndcg@10": nDCG(gains=GAINS) @ 10,
    "mrr@10": RR @ 10,
    "mrr@2": RR @ 2,
    "recall@10": R @ 10,
    "precision@3": P @ 3,
    "map": AP,
    "map@2": AP @ 2,
}


@given(judged_scores(INTEGER_GRADES), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_ir_measures_agrees(case, random):
    scores, grades = case
    # Without ties, which ir_measures' providers break differently.
    scores = np.array([random.sample(range(100), scores.shape[1]) for _ in scores], dtype=float)
    qrels = {f"q{i}": {f"d{j}": int(g) for j, g in enumerate(row)} for i, row in enumerate(grades)}
    run = {f"q{i}": {f"d{j}": s for j, s in enumerate(row)} for i, row in enumerate(scores)}
    expected = {
        (value.query_id, value.measure): value.value
        for value in ir_measures.iter_calc(list(IR_MEASURES.values()), qrels, run)
    }
    values = tf_ranking.per_query(*relevant_ranks(scores, grades), tuple(IR_MEASURES))
    for name, measure in IR_MEASURES.items():
        for query, value in enumerate(values[name]):
            if not np.isnan(value):
                assert value == pytest.approx(expected[f"q{query}", measure], abs=1e-6), name


def test_scores_that_are_nan_have_no_rank():
    # Every comparison with NaN is false, so a diverged model would rank first everywhere.
    with pytest.raises(ValueError, match="1 of 2 scores are NaN"):
        relevant_ranks(np.array([[np.nan, 1.0]]), np.array([[1, 0]]))


def test_long_and_short_rankings_in_one_call_have_independent_values():
    random = np.random.default_rng(0)
    count, depth = 40, 60_000  # several batches of the adapter, the last with long rankings
    ranked = np.concatenate(
        [np.sort(random.choice(depth, 3, replace=False)) + 1 for _ in range(count)]
    )
    ranked[:30] = np.arange(30) % 3 + 1
    grade = random.integers(1, 4, 3 * count).astype(float)
    table = {"query": np.repeat(np.arange(count), 3), "rank": ranked, "grade": grade}
    ranks = pl.DataFrame(table), count
    numpy_values, tf_ranking_values = (
        metrics.per_query(*ranks, NAMES),
        tf_ranking.per_query(*ranks, NAMES),
    )
    for name in NAMES:
        assert tf_ranking_values[name] == pytest.approx(numpy_values[name], abs=1e-6)


@given(judged_scores(), st.integers(1, 16))
def test_the_top_is_the_head_of_a_stable_sort(case, depth):
    for row in case[0]:
        order = [j for j in np.argsort(-row, kind="stable") if not np.isneginf(row[j])]
        assert list(top_columns(row, depth)) == order[:depth]


@pytest.mark.parametrize("name", ["ndcg", "ndcg@0", "ndcg@x", "dcg@10"])
def test_an_unknown_metric_is_named_in_the_error(name):
    with pytest.raises(UserError, match=f"metric '{name}'"):
        parse_metric(name)


@given(judged_scores(), st.integers(1, 12))
def test_expected_reciprocal_rank_is_the_sum_over_the_ranks_where_a_reader_stops(case, k):
    scores, grades = case
    values = metrics.per_query(*relevant_ranks(scores, grades), [f"err@{k}"])[f"err@{k}"]
    for value, row, row_grades in zip(values, scores, grades, strict=True):
        reading, expected = 1.0, 0.0
        for rank, column in enumerate(top_columns(row, k), start=1):
            stop = (2.0 ** row_grades[column] - 1) / 2.0 ** grades.max()
            expected += reading * stop / rank
            reading *= 1 - stop
        assert np.isnan(value) or value == pytest.approx(expected)
