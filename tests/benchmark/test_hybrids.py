"""Hybrids: how their weights are chosen by cross-validation, and how scores are added."""

import numpy as np
import pytest

from dssm_tf.benchmark import hybrids
from dssm_tf.benchmark.folds import assign_folds, join_rankings, select_fold
from dssm_tf.benchmark.hybrids import Hybrid, weightings
from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.runs import DEPTH, rank_titles, relevant_ranks
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.tables.judgments import CorpusTitle, Judgment
from tests.rankers import texts

TITLES = 4


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


def rank_hybrid(hybrid, members, log_prior, task, tune):
    return hybrids.rank_hybrid(hybrid, members, log_prior, task, assign_folds(task), tune)


def ranks(rankings, task):
    return relevant_ranks(select_fold(rankings.run, assign_folds(task)), task)["rank"].to_list()


def first_ranking(rankings, task):
    """Titles and scores of the first query."""
    ranking = select_fold(rankings.run, assign_folds(task)).filter(query=0)
    return ranking["title"].to_list(), ranking["score"].to_numpy()


NO_PRIOR = np.zeros(TITLES)
LOG_PRIOR = np.log([0.1, 0.2, 0.3, 0.4])
WITH_PRIOR = Hybrid("a+prior", ("a", "prior"), with_prior=True)


def test_a_hybrid_of_systems_that_answer_different_queries_answers_all():
    relevant = [0, 1, 2, 3] * 4
    task = task_of(relevant)
    right = np.eye(TITLES)[relevant]
    wrong = np.roll(right, 1, axis=1)
    even_row = np.arange(len(relevant))[:, None] % 2 == 0
    # Each system answers half of the queries with a high score, and the others wrongly with a low
    # score.
    a = np.where(even_row, right, 0.01 * wrong) + 0.001 * right
    b = np.where(even_row, 0.01 * wrong, right) + 0.001 * right
    assert sum(rank == 1 for rank in ranks(rankings_of_scores(task, a), task)) == 8
    hybrid = Hybrid.parse("a+b", ["a", "b"])
    # Scaling per query gives a wrong answer the same score as a correct one. Adding `b` to `a`
    # avoids a tie between them.
    fused, about = rank_hybrid(
        hybrid,
        {"a": rankings_of_scores(task, a * 2 + b), "b": rankings_of_scores(task, b)},
        NO_PRIOR,
        task,
        "ndcg@1",
    )
    assert ranks(fused, task) == [1] * 16
    assert len(about["chosen"]) == 2


def test_a_system_that_is_always_wrong_has_the_lower_weight():
    relevant = [0, 1, 2, 3] * 3
    task = task_of(relevant)
    good = np.eye(TITLES)[relevant]
    bad = 1 - good
    hybrid = Hybrid.parse("good+bad", ["good", "bad"])
    members = {"good": rankings_of_scores(task, good), "bad": rankings_of_scores(task, bad)}
    fused, about = rank_hybrid(hybrid, members, NO_PRIOR, task, "ndcg@10")
    assert ranks(fused, task) == [1] * 12
    for fold in about["chosen"]:
        assert fold["values"]["good"] > fold["values"]["bad"]


def test_scores_add_up_by_weight_after_scaling():
    # Two distinct queries, so that each fold has one query to choose by.
    task = task_of([0, 0])
    a = [[3.0, 1.0, 2.0, 1.0]] * 2  # min-max: 1, 0, 1/2, 0
    b = [[10.0, 30.0, 10.0, 20.0]] * 2  # min-max: 0, 1, 0, 1/2
    hybrid = Hybrid.parse("a+b", ["a", "b"])
    fused, about = rank_hybrid(
        hybrid,
        {"a": rankings_of_scores(task, a), "b": rankings_of_scores(task, b)},
        NO_PRIOR,
        task,
        "map",
    )
    # The first setting has equal weights: titles 0 and 1 tie at 1/2, and title 0 ranks first by
    # its hash. No setting is better, so the first is chosen.
    assert about["chosen"][0]["values"] == {"a": 0.5, "b": 0.5}
    titles, scores = first_ranking(fused, task)
    assert titles == [0, 1, 2, 3]
    assert scores.tolist() == [0.5, 0.5, 0.25, 0.25]


def test_a_title_that_a_system_does_not_list_has_its_lowest_score():
    task = task_of([2, 2])
    a = [[-np.inf, 5.0, 4.0, -np.inf]] * 2
    b = [[1.0, -np.inf, 3.0, 2.0]] * 2
    members = {"a": rankings_of_scores(task, a), "b": rankings_of_scores(task, b)}
    fused, _ = rank_hybrid(Hybrid.parse("a+b", ["a", "b"]), members, NO_PRIOR, task, "map")
    titles, scores = first_ranking(fused, task)
    assert np.isfinite(scores).all()
    assert sorted(titles) == [0, 1, 2, 3]
    assert ranks(fused, task) == [1, 1]


def test_the_prior_ranks_popular_titles_first_among_ties():
    task = task_of([3, 3, 3, 3])
    flat = np.zeros((4, TITLES))
    hybrid = Hybrid.parse("flat+prior", ["flat"])
    fused, _ = rank_hybrid(
        hybrid, {"flat": rankings_of_scores(task, flat)}, LOG_PRIOR, task, "ndcg@10"
    )
    assert ranks(rankings_of_scores(task, flat), task) == [4] * 4
    assert ranks(fused, task) == [1] * 4


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_a_row_with_the_prior_adds_the_weighted_log_prior_to_the_score(scale):
    task = task_of([3] * 8)
    # Title 3, the relevant one, scores 0.5 less than title 0 and is four times as popular: a weight
    # above 0.5 / ln 4 = 0.36 ranks it first, in units of the scores' scale.
    scores = scale * np.tile([1.0, 0.0, 0.0, 0.5], (8, 1))
    hybrid = WITH_PRIOR
    fused, about = rank_hybrid(
        hybrid, {"a": rankings_of_scores(task, scores)}, LOG_PRIOR, task, "ndcg@1"
    )
    assert ranks(rankings_of_scores(task, scores), task) == [2] * 8
    assert ranks(fused, task) == [1] * 8
    unit = scale * np.std([1.0, 0.0, 0.0, 0.5]) / np.std(LOG_PRIOR)
    needed = scale * 0.5 / np.log(4)
    smallest = min(weight for weight in hybrids._PRIOR_WEIGHTS if weight * unit > needed)
    for setting in (*(fold["values"] for fold in about["chosen"]), about["final"]):
        assert setting["prior"] == pytest.approx(smallest * unit)
    columns, fused_scores = first_ranking(fused, task)
    assert fused_scores == pytest.approx(scores[0, columns] + smallest * unit * LOG_PRIOR[columns])


def test_a_misleading_prior_has_weight_0():
    task = task_of([0] * 8)  # the least popular title, which has the highest score
    scores = np.tile([0.5, 0.4, 0.3, 0.2], (8, 1))
    member = {"a": rankings_of_scores(task, scores)}
    fused, about = rank_hybrid(WITH_PRIOR, member, LOG_PRIOR, task, "ndcg@10")
    assert ranks(fused, task) == [1] * 8
    assert [fold["values"]["prior"] for fold in about["chosen"]] == [0.0, 0.0]


def test_relevant_titles_that_no_member_lists_are_not_ranked():
    task = task_of([0, 0])
    a = [[-np.inf, 5.0, 4.0, -np.inf]] * 2
    hybrid = Hybrid.parse("a+b", ["a", "b"])
    fused, _ = rank_hybrid(
        hybrid,
        {"a": rankings_of_scores(task, a), "b": rankings_of_scores(task, a)},
        NO_PRIOR,
        task,
        "map",
    )
    assert ranks(fused, task) == [None, None]


def test_judged_titles_that_no_member_lists_have_scores_of_the_same_formula():
    task = fully_judged_task()
    # Both list the titles 0 and 1; min-max: 1 and 0, and 0 and 1.
    a = rankings_of_scores(task, [[9.0, 8.0, 5.0, 1.0]] * 2, depth=2)
    b = rankings_of_scores(task, [[8.0, 9.0, 4.0, 6.0]] * 2, depth=2)
    hybrid = Hybrid.parse("a+b", ["a", "b"])
    fused, about = rank_hybrid(hybrid, {"a": a, "b": b}, NO_PRIOR, task, "recall@2")
    assert about["chosen"][0]["values"] == {"a": 0.5, "b": 0.5}
    assert first_ranking(fused, task)[0] == [0, 1]
    condensed = select_fold(fused.condensed, assign_folds(task)).filter(query=0)
    # (9 - 8) / 1 and (8 - 8) / 1, halved; title 2: (5 - 8) / 1 and (4 - 8) / 1; title 3: -7 and -2.
    expected = [(0, 0.5), (1, 0.5), (2, -3.5), (3, -4.5)]
    assert [*condensed.select("title", "score").iter_rows()] == expected
    fused, about = rank_hybrid(WITH_PRIOR, {"a": a}, LOG_PRIOR, task, "recall@2")
    weight = about["final"]["prior"]
    condensed = select_fold(fused.condensed, assign_folds(task)).filter(query=0).sort("title")
    expected = np.array([9.0, 8.0, 5.0, 1.0]) + weight * LOG_PRIOR
    assert condensed["score"].to_numpy() == pytest.approx(expected)


@pytest.mark.parametrize("name", ["a+b", "a+b+prior", "a+prior"])
def test_listed_titles_have_the_same_order_in_the_condensed_run(name):
    hybrid = WITH_PRIOR if name == WITH_PRIOR.name else Hybrid.parse(name, ["a", "b"])
    task, random = fully_judged_task(20), np.random.default_rng(0)
    members = {
        member: rankings_of_scores(task, random.integers(0, 6, (20, TITLES)), depth=2)
        for member in "ab"
        if member in hybrid.members
    }
    fused, _ = rank_hybrid(hybrid, members, LOG_PRIOR, task, "map")
    run, condensed = (select_fold(frame, assign_folds(task)) for frame in fused)
    assert len(condensed) == 20 * TITLES > len(run)
    listed = condensed.join(run, on=["query", "title"], how="semi", maintain_order="left")
    assert listed.select("query", "title").equals(run.select("query", "title"))


@pytest.mark.parametrize("hybrid", [Hybrid.parse("a+b", ["a", "b"]), WITH_PRIOR])
def test_judgments_of_a_fold_do_not_affect_the_ranking_reported_on_it(hybrid):
    random = np.random.default_rng(3)
    relevant = random.integers(TITLES, size=24)
    task = task_of(relevant)
    fold = assign_folds(task)
    # Members with tuned parameters have different rankings for each fold.
    tables = random.random((2, 2, 24, TITLES))

    def fused(task):
        members = {
            name: join_rankings([rankings_of_scores(task, table) for table in (*pair, pair[0])])
            for name, pair in zip("ab", tables, strict=True)
            if name in hybrid.members
        }
        rankings, _ = rank_hybrid(hybrid, members, LOG_PRIOR, task, "ndcg@3")
        return select_fold(rankings.run, fold).partition_by("query")

    changed = np.where(fold == 0, (relevant + 1) % TITLES, relevant)
    before, after = fused(task), fused(task_of(changed))
    for row in np.flatnonzero(fold == 0):
        assert before[row].equals(after[row])


def test_weights_for_a_fold_are_chosen_on_the_members_rankings_for_that_fold():
    relevant = [0, 1, 2, 3] * 6
    task = task_of(relevant)
    right = np.eye(TITLES)[relevant]
    good, bad = (rankings_of_scores(task, table) for table in (right, 1 - right))
    # With the settings for the first fold only `a` is right, with those for the second only `b`.
    members = {"a": join_rankings([good, bad, good]), "b": join_rankings([bad, good, bad])}
    fused, about = rank_hybrid(Hybrid.parse("a+b", ["a", "b"]), members, NO_PRIOR, task, "ndcg@1")
    assert ranks(fused, task) == [1] * 24
    first_values, second_values = (fold["values"] for fold in about["chosen"])
    assert first_values["a"] > first_values["b"]
    assert second_values["b"] > second_values["a"]


def test_weights_cannot_be_chosen_on_a_single_query():
    task = task_of([1])
    hybrid = Hybrid.parse("a+b", ["a", "b"])
    run = rankings_of_scores(task, [[1.0, 2.0, 3.0, 4.0]])
    fused, about = rank_hybrid(hybrid, {"a": run, "b": run}, NO_PRIOR, task, "ndcg@10")
    assert ranks(fused, task) == [3]
    assert "fewer than two different queries" in about["chosen"]


@pytest.mark.parametrize("members", [2, 3])
def test_weights_add_up_to_one_and_differ(members):
    settings = weightings(members)
    assert len(set(settings)) == len(settings)
    assert all(sum(weights) == pytest.approx(1) and min(weights) >= 0 for weights in settings)
    assert settings[0] == min(settings, key=lambda weights: max(weights) - min(weights))
    # The settings include each member with weight 1.
    for member in range(members):
        assert tuple(float(member == index) for index in range(members)) in settings


def test_names_of_rows_may_contain_a_plus_sign():
    rows = ["dse+tfidf", "dse", "bm25"]
    assert Hybrid.parse("dse+tfidf+bm25", rows).members == ("dse+tfidf", "bm25")
    assert Hybrid.parse("bm25+dse+prior", rows).members == ("bm25", "dse", "prior")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a+x", r"expected A\+B, A\+prior or A\+B\+prior, of the rows a, b, c"),
        ("a", "expected"),
        ("a+a", "expected"),
        ("a+b+c", "expected"),
        ("", "expected"),
    ],
)
def test_a_hybrid_of_unknown_or_too_few_rows_is_refused(text, message):
    with pytest.raises(UserError, match=message):
        Hybrid.parse(text, ["a", "b", "c"])


def test_the_final_weights_are_chosen_on_all_queries_and_the_members_final_rankings():
    relevant = [0, 1, 2, 3] * 3
    task = task_of(relevant)
    good = np.eye(TITLES)[relevant]
    wrong = rankings_of_scores(task, 1 - good)
    # With the settings of the folds the first member is always wrong; with its final setting it is
    # always right.
    members = {
        "first": join_rankings([wrong, wrong, rankings_of_scores(task, good)]),
        "other": rankings_of_scores(task, np.tile([4.0, 3.0, 2.0, 1.0], (12, 1))),
    }
    hybrid = Hybrid.parse("first+other", ["first", "other"])
    fused, about = rank_hybrid(hybrid, members, NO_PRIOR, task, "ndcg@10")
    assert about["final"]["first"] > 0.5
    assert set(ranks(fused, task)) != {1}
