"""Choosing parameters by two-fold cross-validation."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.benchmark.folds import assign_folds, choose, describe_choice, join_folds, select_fold
from dssm_tf.evaluation.runs import rank_titles, relevant_ranks
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.tables.judgments import CorpusTitle, Judgment
from tests.rankers import texts

TITLES = texts("title", 4)
CORPUS = [CorpusTitle(title, title) for title in TITLES]


def task_of(queries, grades=None):
    """A task in which title i % 4 is relevant for query i, with grade 1 or `grades[i]`."""
    grades = grades or [1.0] * len(queries)
    return RankingTask(
        [
            Judgment(f"q{n:02d}", query, TITLES[n % 4], TITLES[n % 4], grade)
            for n, (query, grade) in enumerate(zip(queries, grades, strict=True))
        ],
        CORPUS,
    )


def constant_run(task, *scores):
    """A run with the same scores for every query."""
    return rank_titles("s", lambda queries, _: np.tile(scores, (len(queries), 1)), task).run


@given(st.lists(st.text("ab c", min_size=0, max_size=6), min_size=1, max_size=30))
def test_folds_are_even_and_equal_texts_stay_together(queries):
    task = task_of(queries)
    fold_of_text = {}
    for query, fold in zip(task.queries, assign_folds(task), strict=True):
        assert fold_of_text.setdefault(" ".join(query.split()), fold) == fold
    counts = [list(fold_of_text.values()).count(fold) for fold in (0, 1)]
    assert 0 <= counts[0] - counts[1] <= 1


def fold_by_query(task):
    return dict(zip(task.queries, assign_folds(task), strict=True))


def test_folds_depend_neither_on_the_order_of_judgments_nor_on_queries_without_relevant_titles():
    queries = [f"query {n}" for n in range(12)]
    fold = fold_by_query(task_of(queries))
    assert fold_by_query(task_of(queries[::-1])) == fold
    with_bad = fold_by_query(task_of([*queries, "bad one", "bad two"], [1.0] * 12 + [0.0] * 2))
    assert {query: with_bad[query] for query in queries} == fold


@pytest.mark.parametrize(
    ("values", "fold", "chosen"),
    [
        # Setting 0 is best on the first fold, setting 1 on the second. The last query has no value.
        ([[0.9, 0.7, 0.1, np.nan], [0.2, 0.2, 0.6, np.nan]], [0, 0, 1, 1], [1, 0, 0]),
        ([[0.5, 0.3], [0.5, 0.3]], [0, 1], [0, 0, 0]),  # the first of equal settings
        (
            [[0.3, 0.3, 0.0], [0.1 + 0.2, 0.1 + 0.2, 0.0]],
            [0, 0, 1],
            [0, 0, 0],
        ),  # equal except for rounding
        ([[0.5, np.nan], [0.6, np.nan]], [0, 1], []),  # nothing to choose by
    ],
)
def test_a_setting_is_chosen_on_the_fold_that_it_is_not_reported_on(values, fold, chosen):
    assert choose(np.array(values), np.array(fold)) == chosen


@given(st.integers(0, 99), st.sampled_from([0, 1]))
def test_judgments_of_a_fold_do_not_affect_the_setting_reported_on_it(seed, changed_fold):
    random = np.random.default_rng(seed)
    fold = np.array([0, 1] * 5)
    values = random.random((6, 10))
    changed = values.copy()
    changed[:, fold == changed_fold] = random.random((6, 5))
    assert choose(values, fold)[changed_fold] == choose(changed, fold)[changed_fold]


def test_each_query_is_ranked_by_the_setting_of_its_fold():
    task = task_of(texts("query", 8))
    fold = assign_folds(task)
    up, down = constant_run(task, 1, 2, 3, 4), constant_run(task, 4, 3, 2, 1)
    run = join_folds([up, down, up])
    # Title n is at rank 4 - n under the first setting and at rank n + 1 under the second.
    expected = [4 - n % 4 if fold[n] == 0 else n % 4 + 1 for n in range(8)]
    assert relevant_ranks(select_fold(run, fold), task)["rank"].to_list() == expected
    assert select_fold(run, np.ones(8, int)).equals(down)
    assert join_folds([up, up, up]) is up
    assert select_fold(up, fold) is up


def test_the_description_has_the_settings_of_both_folds_and_the_final_one():
    description = describe_choice([{"b": 1}, {"b": 0}, {"b": 2}])
    first, second = description["chosen"]
    assert first == {"reported_on": "fold 1", "values": {"b": 1}}
    assert second == {"reported_on": "fold 2", "values": {"b": 0}}
    assert description["final"] == {"b": 2}
    json.dumps(description)
