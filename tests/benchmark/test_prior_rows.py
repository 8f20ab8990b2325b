"""Rows with the prior: how the weight is chosen by cross-validation, and how scores are added."""

import numpy as np
import pytest

from dssm_tf.benchmark import prior_rows
from dssm_tf.benchmark.folds import assign_folds, join_rankings, select_fold
from dssm_tf.benchmark.prior_rows import WEIGHTS
from dssm_tf.evaluation import runs
from dssm_tf.evaluation.runs import DEPTH, rank_titles, relevant_ranks
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.tables.judgments import CorpusTitle, Judgment
from tests.rankers import texts

TITLES = 4
LOG_PRIOR = np.log([0.1, 0.2, 0.3, 0.4])


def task_of(relevant):
    """A task with one query per entry of `relevant`, the index of its relevant title."""
    titles = texts("title", TITLES)
    judgments = [
        Judgment(query, query, titles[index], titles[index], 1.0)
        for query, index in zip(texts("query", len(relevant)), relevant, strict=True)
    ]
    return RankingTask(judgments, [CorpusTitle(title, title) for title in titles])


def fully_judged_task(queries=2):
    """A task in which every title is judged for every query."""
    titles = texts("title", TITLES)
    judgments = [
        Judgment(query, query, title, title, float(grade))
        for query in texts("query", queries)
        for grade, title in enumerate(titles)
    ]
    return RankingTask(judgments, [CorpusTitle(title, title) for title in titles])


def rankings_of_scores(task, table, depth=DEPTH):
    """The rankings of a score matrix `(queries, titles)`."""
    row_of_query = {query: row for row, query in enumerate(task.queries)}
    scores = np.array(table, float)
    return rank_titles(
        "s", lambda queries, _: scores[[row_of_query[query] for query in queries]], task, depth
    )


def rank_with_prior(rankings, task, tune, log_prior=LOG_PRIOR):
    return prior_rows.rank_with_prior(rankings, log_prior, task, assign_folds(task), tune)


def ranks(rankings, task):
    return relevant_ranks(select_fold(rankings.run, assign_folds(task)), task)["rank"].to_list()


def first_ranking(rankings, task):
    """Titles and scores of the first query."""
    ranking = select_fold(rankings.run, assign_folds(task)).filter(query=0)
    return ranking["title"].to_list(), ranking["score"].to_numpy()


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_the_weighted_log_prior_is_added_to_the_score(scale):
    task = task_of([3] * 8)
    # Title 3, the relevant one, scores 0.5 less than title 0 and is four times as popular: a weight
    # above 0.5 / ln 4 = 0.36 ranks it first, in units of the scores' scale.
    scores = scale * np.tile([1.0, 0.0, 0.0, 0.5], (8, 1))
    plain = rankings_of_scores(task, scores)
    result, facts = rank_with_prior(plain, task, "ndcg@1")
    assert ranks(plain, task) == [2] * 8
    assert ranks(result, task) == [1] * 8
    unit = scale * np.std([1.0, 0.0, 0.0, 0.5]) / np.std(LOG_PRIOR)
    needed = scale * 0.5 / np.log(4)
    smallest = min(weight for weight in WEIGHTS if weight * unit > needed)
    for setting in (*(fold["values"] for fold in facts["chosen"]), facts["final"]):
        assert setting["prior"] == pytest.approx(smallest * unit)
    columns, sums = first_ranking(result, task)
    assert sums == pytest.approx(scores[0, columns] + smallest * unit * LOG_PRIOR[columns])


def test_a_misleading_prior_has_weight_0():
    task = task_of([0] * 8)  # the least popular title, which has the highest score
    scores = np.tile([0.5, 0.4, 0.3, 0.2], (8, 1))
    result, facts = rank_with_prior(rankings_of_scores(task, scores), task, "ndcg@10")
    assert ranks(result, task) == [1] * 8
    assert [fold["values"]["prior"] for fold in facts["chosen"]] == [0.0, 0.0]


def test_relevant_titles_that_the_system_does_not_list_are_not_ranked():
    task = task_of([0, 0])
    scores = [[-np.inf, 5.0, 4.0, -np.inf]] * 2
    result, _ = rank_with_prior(rankings_of_scores(task, scores), task, "map")
    assert ranks(result, task) == [None, None]


def test_judged_titles_below_the_listed_ones_have_scores_of_the_same_formula():
    task = fully_judged_task()
    listed = rankings_of_scores(task, [[9.0, 8.0, 5.0, 1.0]] * 2, depth=2)
    result, facts = rank_with_prior(listed, task, "recall@2")
    weight = facts["final"]["prior"]
    condensed = select_fold(result.condensed, assign_folds(task)).filter(query=0).sort("title")
    expected = np.array([9.0, 8.0, 5.0, 1.0]) + weight * LOG_PRIOR
    assert condensed["score"].to_numpy() == pytest.approx(expected)


def test_listed_titles_have_the_same_order_in_the_condensed_run():
    task, random = fully_judged_task(20), np.random.default_rng(0)
    listed = rankings_of_scores(task, random.integers(0, 6, (20, TITLES)), depth=2)
    result, _ = rank_with_prior(listed, task, "map")
    run, condensed = (select_fold(frame, assign_folds(task)) for frame in result)
    assert len(condensed) == 20 * TITLES > len(run)
    both = condensed.join(run, on=["query", "title"], how="semi", maintain_order="left")
    assert both.select("query", "title").equals(run.select("query", "title"))


def test_judgments_of_a_fold_do_not_affect_the_ranking_reported_on_it():
    random = np.random.default_rng(3)
    relevant = random.integers(TITLES, size=24)
    task = task_of(relevant)
    fold = assign_folds(task)
    # A system with tuned parameters has different rankings for each fold.
    tables = random.random((2, 24, TITLES))

    def with_prior(task):
        rankings = [rankings_of_scores(task, table) for table in (*tables, tables[0])]
        result, _ = rank_with_prior(join_rankings(rankings), task, "ndcg@3")
        return select_fold(result.run, fold).partition_by("query")

    changed = np.where(fold == 0, (relevant + 1) % TITLES, relevant)
    before, after = with_prior(task), with_prior(task_of(changed))
    for row in np.flatnonzero(fold == 0):
        assert before[row].equals(after[row])


def test_the_weight_for_a_fold_is_chosen_on_the_rankings_for_that_fold():
    task = task_of([3] * 24)
    # Only the setting for the first fold ranks the popular title first by itself.
    right = rankings_of_scores(task, np.tile([0.0, 0.0, 0.0, 9.0], (24, 1)))
    wrong = rankings_of_scores(task, np.tile([0.5, 0.0, 0.0, 0.0], (24, 1)))
    result, facts = rank_with_prior(join_rankings([right, wrong, right]), task, "ndcg@1")
    assert ranks(result, task) == [1] * 24
    first, second = (fold["values"]["prior"] for fold in facts["chosen"])
    assert first == 0
    assert second > 0
    assert facts["final"]["prior"] == 0


def test_the_weight_cannot_be_chosen_on_a_single_query():
    task = task_of([1])
    run = rankings_of_scores(task, [[1.0, 2.0, 3.0, 4.0]])
    result, facts = rank_with_prior(run, task, "ndcg@10")
    assert ranks(result, task) == [3]
    assert "fewer than two different queries" in facts["chosen"]


def test_judged_titles_below_the_first_titles_of_a_run_do_not_gain_ranks(monkeypatch):
    monkeypatch.setattr(runs, "MAX_ROWS", 1)
    monkeypatch.setattr(runs, "MIN_DEPTH", 2)
    task = RankingTask(
        [Judgment(query, query, title, title, 1.0) for query in "qr" for title in "e"],
        [CorpusTitle(title, title) for title in "abcdef"],
    )
    order = {title: -float(number) for number, title in enumerate("abcdef")}
    rankings = rank_titles(
        "s",
        lambda queries, titles: np.tile([order[title] for title in titles], (len(queries), 1)),
        task,
    )
    assert rankings.run.filter(query=0)["rank"].to_list() == [1, 2, 5, 6]
    prior = np.array([float(title == "e") for title in task.titles])
    result, _ = prior_rows.rank_with_prior(rankings, prior, task, assign_folds(task), "ndcg@3")
    assert result.run.filter(query=0)["rank"].to_list() == [1, 2]
