"""Both implementations of the metrics agree with their definitions and with ir_measures."""

import ir_measures
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import AP, RR, P, R, nDCG

from dssm_tf.common.errors import UserError
from dssm_tf.evaluation import metrics, tf_ranking
from dssm_tf.evaluation.metrics import parse_metric
from tests.reference import ranking_metrics as reference
from tests.relevant_ranks import relevant_ranks

NAMES = ("ndcg@1", "ndcg@3", "ndcg@10", "mrr@10", "mrr@2", "recall@10", "precision@3", "map")
PROVIDERS = [metrics.per_query, tf_ranking.per_query]


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


@pytest.mark.parametrize("name", ["ndcg", "ndcg@0", "ndcg@x", "dcg@10"])
def test_an_unknown_metric_is_named_in_the_error(name):
    with pytest.raises(UserError, match=f"metric '{name}'"):
        parse_metric(name)
