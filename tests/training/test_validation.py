"""The validation task: queries, titles, grades, and metrics."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from pytest import approx
from scipy import sparse

from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.data.title_queries import TitleQuery
from dssm_tf.evaluation.intervals import interval
from dssm_tf.evaluation.ranking import tie_key
from dssm_tf.model.text_scorer import VectorScores
from dssm_tf.training import validation
from dssm_tf.training.prior_weight import PRIOR_WEIGHTS, best_prior_weight
from dssm_tf.training.validation import (
    GRADED_BY_TITLES,
    ValidationTask,
    format_ndcg,
    title_task,
    validation_notes,
    validation_title_queries,
)
from tests.clicks import Click, catalog, write_data
from tests.training.task_vectors import vectors_with_scores

LOG = [
    Click("fox", "red fox", 8),
    Click("fox", "blue fox", 4),
    Click("fox", "black fox", 3),
    Click("bear", "black bear", 1),
    Click("owl", "green owl", 9),
    Click("owls", "green owl", 2),
    Click("fish", "white fish", 1),
]
VALIDATION = {"fox", "bear"}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return write_data(
        tmp_path_factory.mktemp("validation") / "data", LOG, validation=VALIDATION
    ).path


@pytest.fixture(scope="module")
def task(directory) -> ValidationTask:
    return ValidationTask.from_clicks(Preprocessed(directory), 100, 100)


def test_the_grades_follow_the_clicks(task, directory):
    assert task.queries == ("fox", "bear")
    grades = {
        (task.queries[row], task.titles[column]): grade
        for row, column, grade in zip(*sparse.find(task.grades), strict=True)
    }
    assert grades == {
        ("fox", "red fox"): 3,  # the most clicked
        ("fox", "blue fox"): 2,  # at least half as many clicks
        ("fox", "black fox"): 1,
        ("bear", "black bear"): 3,
    }
    assert sorted(task.titles) == sorted({click.title for click in LOG})
    first = ValidationTask.from_clicks(Preprocessed(directory), 1, 100)
    assert (first.queries, first.grades.shape, first.grades.nnz) == (("fox",), (1, 6), 3)


def test_titles_clicked_in_validation_do_not_win_ties(tmp_path):
    # Each of 50 queries clicks another title. With equal scores, only one is ranked right.
    log = [Click(f"query {n}", f"title {n}") for n in range(50)]
    data = write_data(tmp_path / "data", log, validation={click.query for click in log[:25]}).path
    task = ValidationTask.from_clicks(Preprocessed(data), 100, 100)
    assert list(task.titles) == sorted(task.titles, key=tie_key)
    assert task.ndcg(vectors_with_scores(np.zeros(task.grades.shape)))["ndcg@1"] <= 1 / 25


def test_titles_beyond_the_limit_are_sampled_independently_of_their_clicks(tmp_path):
    # The most clicked titles alone are far easier to rank than a full catalog. With them, a
    # model that is poor on the full catalog seemed good.
    log = [Click(f"query {n}", f"clicked {n}", 9) for n in range(50)]
    log += [Click(f"rare {n}", f"unclicked {n}") for n in range(50)]
    data = Preprocessed(write_data(tmp_path / "data", log, validation={"query 0", "query 1"}).path)
    task = ValidationTask.from_clicks(data, 100, 52)
    assert {"clicked 0", "clicked 1"} <= set(task.titles)
    assert len(task.titles) == 52
    # 50 of 98 others, 50 of them clicked once: 25.5 expected, standard deviation 3.5.
    assert 12 <= sum("unclicked" in title for title in task.titles) <= 39
    assert ValidationTask.from_clicks(data, 100, 52).titles == task.titles
    assert set(ValidationTask.from_clicks(data, 100, 1).titles) == {"clicked 0", "clicked 1"}


SHELF = ["red wool hat", "red silk hat", "red silk scarf long", "blue tie", "owl"]


def test_queries_made_from_titles_are_graded_by_the_words_that_titles_have(tmp_path, monkeypatch):
    data = Preprocessed(write_data(tmp_path / "data", [], corpus=SHELF).path)
    words, _ = data.distinct_words

    def query(text: str, title: str, in_words: str) -> TitleQuery:
        index = int(data.find("titles", [title])[0])
        return TitleQuery(text, index, tuple(words.index(word) for word in in_words.split()))

    queries = [
        query("red hta", "red wool hat", "red hat"),
        query("red silk", "red silk scarf long", "red silk"),
        query("silk long", "red silk scarf long", "silk long"),
    ]
    monkeypatch.setattr(validation, "draw_title_queries", lambda *arguments: queries)
    task = ValidationTask.from_titles(data, 100, 100, seed=0)
    grades = {
        (task.queries[row], task.titles[column]): grade
        for row, column, grade in zip(*sparse.find(task.grades), strict=True)
    }
    assert grades == {
        ("red hta", "red wool hat"): 3,  # its title
        ("red hta", "red silk hat"): 1,  # has both words before the typing error
        ("red silk", "red silk scarf long"): 3,
        ("red silk", "red silk hat"): 1,
        ("silk long", "red silk scarf long"): 3,
    }
    assert list(task.titles) == sorted(SHELF, key=tie_key)
    assert task.judged is None
    assert "made from titles" in task.description
    # Only the titles of the queries are always ranked.
    few = ValidationTask.from_titles(data, 100, 2, seed=0)
    assert {*few.titles} == {"red wool hat", "red silk scarf long"}
    assert few.grades.toarray().tolist() == [
        [3.0 if title == query_title else 0.0 for title in few.titles]
        for query_title in ("red wool hat", "red silk scarf long", "red silk scarf long")
    ]


def test_queries_made_from_titles_are_limited_and_repeat(tmp_path):
    data = Preprocessed(write_data(tmp_path / "data", [], corpus=catalog()).path)
    task = ValidationTask.from_titles(data, 30, 100, seed=0)
    assert (len(task.queries), len(task.titles)) == (30, 100)
    assert (task.grades.max(axis=1).toarray() == 3).all()
    again = ValidationTask.from_titles(data, 30, 100, seed=0)
    assert (again.queries, again.titles) == (task.queries, task.titles)
    assert ValidationTask.from_titles(data, 30, 100, seed=1).queries != task.queries
    # Training leaves out all queries that a validation may use.
    held_out = [query.text for query in validation_title_queries(data)]
    assert title_task(data, 1000, 1000).queries == tuple(held_out)
    assert title_task(data, 30, 1000).queries == tuple(held_out[:30])


def test_no_validation_queries_are_made_if_no_title_has_three_words(tmp_path):
    data = Preprocessed(write_data(tmp_path / "data", [], corpus=["red fox", "owl"]).path)
    assert ValidationTask.from_titles(data, 30, 100, seed=0) is None
    (note,) = validation_notes(None, data)
    assert "no title has three different words" in note


def test_the_note_before_a_training_names_the_source_of_its_queries(tmp_path, task, directory):
    data = Preprocessed(write_data(tmp_path / "data", [], corpus=catalog()).path)
    (few,) = validation_notes(title_task(data, 30, 100), data)
    assert few.startswith(
        "The best weights are chosen on 30 queries made from titles, fewer than 200: other queries"
    )
    many = ValidationTask(("q",) * 200, ("t",), sparse.csr_array((200, 1)), GRADED_BY_TITLES)
    (note,) = validation_notes(many, data)
    assert "200 queries made from titles, because no clicks and no judgments are held out" in note
    (clicks,) = validation_notes(task, Preprocessed(directory))
    assert "log-prior are chosen on 2 queries, fewer" in clicks


def test_ranks_are_the_same_in_blocks_of_any_size(monkeypatch):
    random = np.random.default_rng(0)
    vectors = VectorScores(*(random.integers(-2, 3, (n, 4)).astype(np.float32) for n in (7, 11)))
    grades = sparse.csr_array(3 * np.eye(7, 11) + np.eye(7, 11, -6))
    task = ValidationTask(tuple("abcdefg"), tuple("abcdefghijk"), grades)
    bonus = random.integers(0, 2, 11).astype(np.float32)
    expected = task.metrics_with_ci(vectors, bonus)
    assert expected == task.metrics_with_ci(
        vectors_with_scores(vectors.queries @ vectors.titles.T + bonus)
    )
    for cells in (1, 25, 1000):  # one, two, all queries at once
        monkeypatch.setattr(validation, "_MAX_SCORES", cells)
        assert task.metrics_with_ci(vectors, bonus) == expected


def test_a_large_catalog_is_ranked_in_bounded_memory():
    # 200 queries by 200,000 titles: the matrix would have 160 MB, and twice that with grades.
    queries, titles = 200, 200_000
    texts = tuple(map(str, range(titles)))
    grades = sparse.eye_array(queries, titles, format="csr") * 3.0
    task = ValidationTask(texts[:queries], texts, grades)
    random = np.random.default_rng(0)
    vectors = VectorScores(*(random.random((n, 2), np.float32) for n in (queries, titles)))
    tracemalloc.start()
    task.ndcg(vectors)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 120e6


def test_means_come_with_their_intervals(task):
    worst = vectors_with_scores(-task.grades)
    metrics = task.metrics_with_ci(worst)
    # Three titles without a grade come first. Gain 2^grade - 1; discount log2(rank + 1).
    fox = (1 / np.log2(5) + 3 / np.log2(6) + 7 / np.log2(7)) / (7 + 3 / np.log2(3) + 1 / 2)
    assert metrics["ndcg@3"] == 0
    assert metrics["ndcg@10"] == approx((fox + 1 / np.log2(7)) / 2)
    values = [metrics["low ndcg@10"], metrics["ndcg@10"], metrics["high ndcg@10"]]
    assert 0 <= values[0] < values[1] < values[2] <= 1
    assert {name: metrics[name] for name in task.ndcg(worst)} == task.ndcg(worst)
    interval_of_ndcg_1 = f"({interval(metrics['low ndcg@1'], metrics['high ndcg@1'])}/"
    assert format_ndcg(metrics).startswith(f"NDCG@1/3/10 {metrics['ndcg@1']:.3f}/")
    assert interval_of_ndcg_1 in format_ndcg(metrics)


def test_the_prior_weight_is_the_best_and_of_ties_the_smallest(task):
    # The cosines prefer a wrong title by 0.03. A difference of 5 in the log-prior reverses this at
    # weights above 0.006, so all larger weights tie.
    wrong = np.zeros(task.grades.shape, np.float32)
    wrong[:, task.titles.index("white fish")] = 0.03
    popular = np.array([-5.0 if "fish" in title else 0.0 for title in task.titles], np.float32)
    assert best_prior_weight(task, vectors_with_scores(wrong), popular) == PRIOR_WEIGHTS[1]
    # With perfect cosines, the prior can only make the ranking worse.
    assert best_prior_weight(task, vectors_with_scores(task.grades), popular) == 0.0
