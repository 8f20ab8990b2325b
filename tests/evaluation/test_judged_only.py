"""`judged@10` beside NDCG, and systems on judged titles only."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.evaluate import JUDGED_ONLY_METRICS, evaluate
from dssm_tf.evaluation.metrics import Metric
from dssm_tf.evaluation.significance import holm, paired_t_test
from dssm_tf.reports.formatting import judged_only_protocol
from dssm_tf.tables.judgments import CorpusTitle, Judgment
from tests.rankers import BAD, CORPUS, GOOD, JUDGMENTS, TableRanker, rankers_on_many_queries, texts
from tests.reference import judged_titles as reference

NDCG = JUDGED_ONLY_METRICS[:-1]


def by_query(evaluation, system, metric):
    """The values of a metric by query."""
    return dict(zip(evaluation.task.queries, evaluation.values[system][metric], strict=True))


def test_the_judgment_rate_counts_judged_titles_of_any_grade():
    evaluation = evaluate({"bad": BAD}, JUDGMENTS, CORPUS)
    # All four titles are ranked. Judged are two for "hat", and two for "shoe", one of grade 0.
    rates = by_query(evaluation, "bad", "judged@10")
    assert (rates["hat"], rates["shoe"]) == (1 / 2, 1 / 2)
    assert np.isnan(rates["tie"])  # means leave it out
    # hat: green tie (not judged) is first, then blue box; shoe: blue box (grade 0) is first.
    evaluation = evaluate({"bad": BAD}, JUDGMENTS, CORPUS, metrics=["judged@1", "judged@2"])
    rates = by_query(evaluation, "bad", "judged@1")
    assert (rates["hat"], rates["shoe"]) == (0, 1)
    assert by_query(evaluation, "bad", "judged@2")["hat"] == 1 / 2


def test_the_judgment_rate_follows_the_last_ndcg_if_the_corpus_has_titles_without_a_judgment():
    def metrics(names, corpus):
        return evaluate(GOOD, JUDGMENTS, corpus, metrics=names).metrics

    constant = Metric("ndcg of my own", lambda ranks, grades: 1.0)
    names = ["ndcg@1", "map", "ndcg@3", "mrr@10", constant]
    assert metrics(names, CORPUS) == (
        "ndcg@1", "map", "ndcg@3", "judged@10", "mrr@10", "ndcg of my own",
    )  # fmt: skip
    assert "judged@10" not in metrics(names, None)
    assert metrics(["map", constant], CORPUS) == ("map", "ndcg of my own")
    assert metrics(["judged@5", "ndcg@3"], CORPUS) == ("judged@5", "ndcg@3")
    judged_corpus = [title for title in CORPUS if title.doc_id in {"d2", "d3"}]
    every_title_is_judged = [row for row in JUDGMENTS if row.query == "hat"]
    assert evaluate(GOOD, every_title_is_judged, judged_corpus, metrics=["ndcg@3"]).metrics == (
        "ndcg@3",
    )


def test_judgments_of_queries_without_a_relevant_title_do_not_count_for_the_others():
    judgments = [
        Judgment("q2", "hat", "d2", "red hat", 3.0),
        Judgment("q3", "tie", "d2", "red hat", 0.0),
        Judgment("q3", "tie", "d3", "blue box", 0.0),
    ]
    corpus = [title for title in CORPUS if title.doc_id in {"d2", "d3"}]
    assert evaluate(GOOD, judgments, corpus).mean("table", "judged@10") == 1 / 2


def test_systems_are_not_compared_by_the_judgment_rate():
    evaluation = evaluate(*rankers_on_many_queries())
    assert "judged@10" in evaluation.metrics
    assert {test.metric for test in evaluation.comparisons} == {
        *evaluation.metrics
    } - {"judged@10"}  # fmt: skip
    only_rates = evaluate(*rankers_on_many_queries(), metrics=["judged@1"])
    assert [test.metric for test in only_rates.comparisons] == ["judged@1"]


def test_a_metric_cannot_have_the_name_of_the_judgment_rate():
    with pytest.raises(UserError, match="metric 'judged@3' is built in"):
        evaluate(GOOD, JUDGMENTS, metrics=[Metric("judged@3", max)])


def test_titles_without_a_judgment_are_removed_from_the_rankings():
    evaluation = evaluate({"bad": BAD, "good": GOOD}, JUDGMENTS, CORPUS, judged_only=True)
    only = evaluation.judged_only
    assert only.metrics == ("ndcg@1", "ndcg@3", "ndcg@10", "concordance")
    # hat: blue box (1) then red hat (3), without green tie. shoe: blue box (0) then red shoe (2).
    bad = {metric: by_query(only, "bad", metric) for metric in only.metrics}
    assert bad["ndcg@1"]["hat"] == pytest.approx(1 / 7, abs=1e-6)
    expected = (1 + 7 / np.log2(3)) / (7 + 1 / np.log2(3))
    assert bad["ndcg@3"]["hat"] == pytest.approx(expected, abs=1e-6)
    assert bad["ndcg@10"]["shoe"] == pytest.approx(1 / np.log2(3), abs=1e-6)
    # Each query has one pair of judged titles, which is in the wrong order.
    assert (bad["concordance"]["hat"], bad["concordance"]["shoe"]) == (0, 0)
    assert np.isnan(bad["concordance"]["tie"])
    assert only.mean("good", "concordance") == 1
    assert {only.mean("good", metric) for metric in NDCG} == {1}
    # The usual table is the same as without judged titles only.
    usual = evaluate({"bad": BAD, "good": GOOD}, JUDGMENTS, CORPUS)
    assert evaluation.summary().equals(usual.summary())
    assert evaluation.comparisons == usual.comparisons
    assert usual.judged_only is None


def random_case(seed, queries=40, titles=60):
    """Scores with ties and grades, both `(queries, titles)`; NaN for titles without a judgment."""
    random = np.random.default_rng(seed)
    scores = random.integers(0, 30, (queries, titles)).astype(float)
    grades = random.choice([0, 0.33, 0.5, 1, 2, 3], (queries, titles))
    grades[random.random((queries, titles)) > random.choice([0.03, 0.2])] = np.nan
    grades[0, 0] = 1.0
    return scores, grades


def evaluate_case(scores, grades, **options):
    """The evaluation of random scores on a corpus; titles are in the order that breaks ties."""
    titles = texts("title", scores.shape[1])
    queries = [f"query {q}" for q in range(len(scores))]
    judgments = [
        Judgment(f"q{q}", queries[q], titles[t], titles[t], float(grades[q, t]))
        for q, t in np.argwhere(~np.isnan(grades)).tolist()
    ]
    table = {
        (queries[q], titles[t]): scores[q, t] for q, t in np.argwhere(np.isfinite(scores)).tolist()
    }
    corpus = [CorpusTitle(title, title) for title in titles]
    return evaluate({"s": TableRanker(table)}, judgments, corpus, judged_only=True, **options)


@pytest.mark.parametrize("cells", [130, 1 << 20])  # two queries at a time, or all at once
@given(st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_values_equal_the_definitions(cells, seed):
    scores, grades = random_case(seed)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("dssm_tf.evaluation.runs._MIN_BATCH", 1)
        monkeypatch.setattr("dssm_tf.evaluation.runs._CELLS", cells)
        evaluation = evaluate_case(scores, grades)
    only = {metric: by_query(evaluation.judged_only, "s", metric) for metric in JUDGED_ONLY_METRICS}
    rates = by_query(evaluation, "s", "judged@10")
    for query in evaluation.task.queries:
        q = int(query.removeprefix("query "))
        relevant = np.nan_to_num(grades[q]) > 0
        if not relevant.any():
            assert all(np.isnan(values[query]) for values in (*only.values(), rates))
            continue
        order = np.argsort(-scores[q], kind="stable")
        ranking = [None if np.isnan(grade) else grade for grade in grades[q, order].tolist()]
        assert rates[query] == reference.judged(ranking, 10)
        for metric, k in zip(NDCG, (1, 3, 10), strict=True):
            expected = reference.condensed_ndcg(ranking, k)
            assert only[metric][query] == pytest.approx(expected, abs=1e-6)
        judged = ~np.isnan(grades[q])
        expected = reference.concordance(scores[q, judged].tolist(), grades[q, judged].tolist())
        assert only["concordance"][query] == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("seed", range(3))
def test_titles_without_a_judgment_do_not_matter(seed):
    scores, grades = random_case(seed)
    before = evaluate_case(scores, grades).judged_only
    unjudged = np.isnan(grades)
    scores[unjudged] = np.random.default_rng(9).permutation(scores[unjudged])
    after = evaluate_case(scores, grades).judged_only
    assert before.summary().equals(after.summary())


def test_if_every_title_is_judged_the_ndcg_is_that_of_the_whole_corpus():
    scores, grades = random_case(1)
    evaluation = evaluate_case(scores, np.nan_to_num(grades))
    assert "judged@10" not in evaluation.metrics
    for metric in NDCG:
        whole, only = (e.values["s"][metric] for e in (evaluation, evaluation.judged_only))
        np.testing.assert_array_equal(whole, only)


def test_without_a_corpus_both_tables_have_the_same_ndcg():
    evaluation = evaluate(*rankers_on_many_queries()[:2], judged_only=True)
    for metric in NDCG:
        assert evaluation.mean("better", metric) == evaluation.judged_only.mean("better", metric)


def test_judged_titles_below_the_first_thousand_have_scores():
    count = 1_100
    titles = [f"title {number:04d}" for number in range(count)]
    table = {("q", title): -float(number) for number, title in enumerate(titles)}
    corpus = [CorpusTitle(title, title) for title in titles]
    # By score: ranks 1,052, 1,071 and 1,091, with the grades 2, 0 and 1.
    grades = {1051: 2.0, 1070: 0.0, 1090: 1.0}
    judgments = [Judgment("q", "q", titles[t], titles[t], grade) for t, grade in grades.items()]
    evaluation = evaluate(TableRanker(table), judgments, corpus, judged_only=True)
    assert evaluation.mean("table", "ndcg@10") == 0
    only = evaluation.judged_only
    expected = (3 + 1 / np.log2(4)) / (3 + 1 / np.log2(3))
    assert only.mean("table", "ndcg@10") == pytest.approx(expected, abs=1e-6)
    assert only.mean("table", "concordance") == pytest.approx(2 / 3)


def test_scores_closer_than_single_precision_are_not_equal():
    judgments = [Judgment("q", "q", "a", "a", 1.0), Judgment("q", "q", "b", "b", 0.0)]
    ranker = TableRanker({("q", "a"): 1.0, ("q", "b"): 1.0 + 1e-12})
    assert (
        evaluate(ranker, judgments, judged_only=True).judged_only.mean("table", "concordance") == 0
    )


def test_judged_titles_that_a_run_lacks_are_below_the_ones_that_it_lists():
    runs = {"theirs": {"q2": {"d4": 9.0, "d3": 5.0}}}  # no red hat (3), and nothing for "shoe"
    only = evaluate({}, JUDGMENTS, CORPUS, runs=runs, judged_only=True).judged_only
    values = by_query(only, "theirs", "ndcg@10")
    # blue box (1) is first, and red hat is not ranked.
    assert values["hat"] == pytest.approx(1 / (7 + 1 / np.log2(3)), abs=1e-6)
    assert values["shoe"] == 0
    values = by_query(only, "theirs", "concordance")
    assert (values["hat"], values["shoe"]) == (0, 1 / 2)


def test_tests_cover_the_queries_with_a_value_and_are_adjusted_in_their_own_table():
    judgments = [
        # The titles of every third query have the same grade.
        Judgment(f"q{q}", f"query {q}", f"d{t}", f"title {t}", float(q % 3 == 0 or t % 2))
        for q in range(30)
        for t in range(4)
    ]
    random = np.random.default_rng(0)
    rankers = {
        name: TableRanker(
            {
                (f"query {q}", f"title {t}"): random.random() + shift * (t % 2)
                for q in range(30)
                for t in range(4)
            }
        )
        for name, shift in (("worse", 0.0), ("better", 0.4))
    }
    only = evaluate(rankers, judgments, judged_only=True).judged_only
    differences = only.values["better"]["concordance"] - only.values["worse"]["concordance"]
    counted = differences[~np.isnan(differences)]
    assert len(counted) == 20
    test = next(test for test in only.comparisons if test.metric == "concordance")
    assert test.difference == pytest.approx(counted.mean())
    assert test.p == paired_t_test(counted).p
    assert len(only.comparisons) == len(JUDGED_ONLY_METRICS)
    expected = holm([test.p for test in only.comparisons]).tolist()
    assert [test.p_adjusted for test in only.comparisons] == expected
    summary = only.summary().filter(system="better")
    ndcg, concordance = (summary.filter(metric=m)["mean"][0] for m in ("ndcg@1", "concordance"))
    assert ndcg == pytest.approx(only.values["better"]["ndcg@1"].mean())
    assert concordance == pytest.approx(np.nanmean(only.values["better"]["concordance"]))
    lines = " ".join(judged_only_protocol(only))
    assert "For 10 of 30 queries all judged titles have the same grade" in lines
    assert "Mean over 20 queries that have such a pair" in lines


def test_without_two_grades_there_is_no_concordance():
    evaluation = evaluate(*rankers_on_many_queries(), judged_only=True)
    assert evaluation.judged_only.metrics == NDCG
    assert "no concordance" in " ".join(judged_only_protocol(evaluation.judged_only))
    assert set(evaluation.judged_only.summary()["mean"]) == {1.0}
