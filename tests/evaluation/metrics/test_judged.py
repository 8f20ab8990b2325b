"""The fraction of judged titles: its definition, and the values of ir_measures."""

import ir_measures
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import Judged

from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.metrics import judged_per_query, metric_names, parse_metric
from tests.reference import judged_titles as reference

GRADES = st.sampled_from([None, None, 0, 1, 3])
RANKINGS = st.lists(st.lists(GRADES, max_size=14), min_size=1, max_size=4)


def values(rankings, name):
    """The metric of rankings of grades, best title first; None is a title without a judgment."""
    titles = [(q, t, g) for q, grades in enumerate(rankings) for t, g in enumerate(grades)]
    frame = pl.DataFrame(titles, {"query": int, "title": int, "grade": float}, orient="row")
    run = frame.select("query", "title", rank=pl.col("title") + 1)
    return judged_per_query(run, frame.drop_nulls("grade"), len(rankings), name)


def test_titles_of_grade_0_are_judged():
    ranking = [3, None, 0, None, None, 1]
    # Judged are ranks 1, 3 and 6.
    assert values([ranking], "judged@1")[0] == 1
    assert values([ranking], "judged@2")[0] == 1 / 2
    assert values([ranking], "judged@3")[0] == pytest.approx(2 / 3)
    # The ranking is shorter than the cut-off: 3 of its 6 titles.
    assert values([ranking], "judged@10")[0] == 3 / 6
    assert values([[], ranking], "judged@1").tolist() == [0, 1]


@given(RANKINGS, st.integers(1, 16))
@settings(max_examples=60)
def test_the_judgment_rate_equals_its_definition(rankings, k):
    expected = [reference.judged(ranking, k) for ranking in rankings]
    assert values(rankings, f"judged@{k}") == pytest.approx(expected)


@given(RANKINGS, st.integers(1, 16))
@settings(max_examples=60, deadline=None)
def test_ir_measures_agrees(rankings, k):
    # ir_measures has no value for queries that have no judgment or no ranked title.
    qrels = {f"q{q}": {"never ranked": 1} for q in range(len(rankings))}
    run = {f"q{q}": {} for q in range(len(rankings))}
    for q, grades in enumerate(rankings):
        for t, grade in enumerate(grades):
            run[f"q{q}"][f"d{t}"] = -float(t)
            if grade is not None:
                qrels[f"q{q}"][f"d{t}"] = grade
    run = {query: scores for query, scores in run.items() if scores}
    calculated = ir_measures.iter_calc([Judged @ k], qrels, run) if run else []
    expected = {result.query_id: result.value for result in calculated}
    for q, value in enumerate(values(rankings, f"judged@{k}")):
        assert value == pytest.approx(expected.get(f"q{q}", 0))


@given(st.lists(GRADES, min_size=1, max_size=14), st.integers(1, 16))
def test_the_number_of_judged_titles_does_not_fall_with_the_cut_off(ranking, k):
    counts = [
        values([ranking], f"judged@{cutoff}")[0] * min(cutoff, len(ranking))
        for cutoff in (k, k + 1)
    ]
    assert counts[0] <= counts[1] + 1e-9
    assert counts[1] - counts[0] <= 1 + 1e-9


def test_it_needs_a_cut_off_and_cannot_choose_parameters():
    assert metric_names(["ndcg@10", "judged@5"]) == ("ndcg@10", "judged@5")
    with pytest.raises(UserError, match=r"metric 'judged': expected one of ndcg, .*, judged with"):
        metric_names(["judged"])
    with pytest.raises(UserError, match="metric 'judged@10': expected one of ndcg"):
        parse_metric("judged@10")


def test_the_order_of_queries_and_judgments_does_not_matter():
    rankings = [[1, None], [None, 0, 0], [None]]
    assert values(rankings, "judged@3")[::-1].tolist() == pytest.approx(
        values(rankings[::-1], "judged@3").tolist()
    )
    assert np.isfinite(values(rankings, "judged@3")).all()
