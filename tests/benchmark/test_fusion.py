import numpy as np
import pytest

from dssm_tf.benchmark import fusion
from dssm_tf.benchmark.folds import by_fold, folds, of_fold
from dssm_tf.benchmark.fusion import Hybrid, weightings
from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.runs import make_run, relevant_ranks
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.tables.judgments import CorpusTitle, Judgment
from tests.rankers import texts

TITLES = 4


def task_of(relevant):
    """One query a relevant title."""
    titles = texts("title", TITLES)
    judgments = [
        Judgment(query, query, titles[place], titles[place], 1.0)
        for query, place in zip(texts("query", len(relevant)), relevant, strict=True)
    ]
    return RankingTask(judgments, [CorpusTitle(title, title) for title in titles])


def kept(task, table):
    """A run of a score a query and title."""
    places = {query: place for place, query in enumerate(task.queries)}
    scores = np.array(table, float)
    return make_run("s", lambda queries, _: scores[[places[one] for one in queries]], task)


def fuse(hybrid, members, log_prior, task, tune):
    return fusion.fuse(hybrid, members, log_prior, task, folds(task), tune)


def ranks(run, task):
    return relevant_ranks(of_fold(run, folds(task)), task)["rank"].to_list()


def first(run, task):
    """Titles and scores of the first query."""
    found = of_fold(run, folds(task)).filter(query=0)
    return found["title"].to_list(), found["score"].to_numpy()


NO_PRIOR = np.zeros(TITLES)


def test_two_systems_that_know_different_queries_are_right_on_all_when_joined():
    relevant = [0, 1, 2, 3] * 4
    task = task_of(relevant)
    right = np.eye(TITLES)[relevant]
    wrong = np.roll(right, 1, axis=1)
    even = np.arange(len(relevant))[:, None] % 2 == 0
    # Each is sure where it is right, and gives a wrong title a little where it is not.
    a = np.where(even, right, 0.0) + np.where(even, 0.0, 0.01 * wrong) + 0.001 * right
    b = np.where(~even, right, 0.0) + np.where(~even, 0.0, 0.01 * wrong) + 0.001 * right
    assert sum(rank == 1 for rank in ranks(kept(task, a), task)) == 8
    hybrid = Hybrid.parse("a+b", ["a", "b"])
    # Scaled by query, a wrong guess would be as loud as a right one: let it be heard half.
    fused, about = fuse(
        hybrid, {"a": kept(task, a * 2 + b), "b": kept(task, b)}, NO_PRIOR, task, "ndcg@1"
    )
    assert ranks(fused, task) == [1] * 16
    assert len(about["chosen"]) == 2


def test_a_system_that_knows_nothing_gets_no_weight():
    relevant = [0, 1, 2, 3] * 3
    task = task_of(relevant)
    good = np.eye(TITLES)[relevant]
    bad = 1 - good
    hybrid = Hybrid.parse("good+bad", ["good", "bad"])
    members = {"good": kept(task, good), "bad": kept(task, bad)}
    fused, about = fuse(hybrid, members, NO_PRIOR, task, "ndcg@10")
    assert ranks(fused, task) == [1] * 12
    for half in about["chosen"]:
        assert half["values"]["good"] > half["values"]["bad"]


def test_scores_add_up_by_weight_after_scaling():
    # One pair of distinct queries, so that both halves choose by one query each.
    task = task_of([0, 0])
    a = [[3.0, 1.0, 2.0, 1.0]] * 2  # min-max: 1, 0, 1/2, 0
    b = [[10.0, 30.0, 10.0, 20.0]] * 2  # min-max: 0, 1, 0, 1/2
    hybrid = Hybrid.parse("a+b", ["a", "b"])
    fused, about = fuse(hybrid, {"a": kept(task, a), "b": kept(task, b)}, NO_PRIOR, task, "map")
    # Evenly weighted, the first of the settings, title 0 ties with title 1 at 1/2 and wins by
    # its hash; so nothing is better, and the first setting is chosen.
    assert about["chosen"][0]["values"] == {"a": 0.5, "b": 0.5}
    titles, scores = first(fused, task)
    assert titles == [0, 1, 2, 3]
    assert scores.tolist() == [0.5, 0.5, 0.25, 0.25]


def test_a_title_that_a_system_does_not_list_has_its_lowest_score():
    task = task_of([2, 2])
    a = [[-np.inf, 5.0, 4.0, -np.inf]] * 2
    b = [[1.0, -np.inf, 3.0, 2.0]] * 2
    members = {"a": kept(task, a), "b": kept(task, b)}
    fused, _ = fuse(Hybrid.parse("a+b", ["a", "b"]), members, NO_PRIOR, task, "map")
    titles, scores = first(fused, task)
    assert np.isfinite(scores).all()
    assert sorted(titles) == [0, 1, 2, 3]
    assert ranks(fused, task) == [1, 1]


def test_the_prior_breaks_ties_towards_popular_titles():
    task = task_of([3, 3, 3, 3])
    flat = np.zeros((4, TITLES))
    hybrid = Hybrid.parse("flat+prior", ["flat"])
    fused, _ = fuse(hybrid, {"flat": kept(task, flat)}, LOG_PRIOR, task, "ndcg@10")
    assert ranks(kept(task, flat), task) == [4] * 4
    assert ranks(fused, task) == [1] * 4


LOG_PRIOR = np.log([0.1, 0.2, 0.3, 0.4])
WITH_PRIOR = Hybrid("a+prior", ("a", "prior"), with_prior=True)


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_a_row_with_the_prior_adds_a_weighted_share_of_clicks_to_the_score(scale):
    task = task_of([3] * 8)
    # Title 3, which is right, is half a point behind title 0 and four times as popular: a weight
    # above .5 / ln 4 = .36 puts it first, on whatever scale the scores are.
    scores = scale * np.tile([1.0, 0.0, 0.0, 0.5], (8, 1))
    hybrid = WITH_PRIOR
    fused, about = fuse(hybrid, {"a": kept(task, scores)}, LOG_PRIOR, task, "ndcg@1")
    assert ranks(kept(task, scores), task) == [2] * 8
    assert ranks(fused, task) == [1] * 8
    unit = scale * np.std([1.0, 0.0, 0.0, 0.5]) / np.std(LOG_PRIOR)
    smallest = min(w for w in fusion._PRIOR_WEIGHTS if w * unit > scale * 0.5 / np.log(4))
    for one in (*(half["values"] for half in about["chosen"]), about["final"]):
        assert one["prior"] == pytest.approx(smallest * unit)
    columns, found = first(fused, task)
    assert found == pytest.approx(scores[0, columns] + smallest * unit * LOG_PRIOR[columns])


def test_a_prior_that_misleads_gets_no_weight():
    task = task_of([0] * 8)  # the least popular title, which the scores have first
    scores = np.tile([0.5, 0.4, 0.3, 0.2], (8, 1))
    member = {"a": kept(task, scores)}
    fused, about = fuse(WITH_PRIOR, member, LOG_PRIOR, task, "ndcg@10")
    assert ranks(fused, task) == [1] * 8
    assert [one["values"]["prior"] for one in about["chosen"]] == [0.0, 0.0]


def test_relevant_titles_that_no_member_lists_are_not_ranked():
    task = task_of([0, 0])
    a = [[-np.inf, 5.0, 4.0, -np.inf]] * 2
    hybrid = Hybrid.parse("a+b", ["a", "b"])
    fused, _ = fuse(hybrid, {"a": kept(task, a), "b": kept(task, a)}, NO_PRIOR, task, "map")
    assert ranks(fused, task) == [None, None]


@pytest.mark.parametrize("hybrid", [Hybrid.parse("a+b", ["a", "b"]), WITH_PRIOR])
def test_no_judgment_of_a_half_takes_part_in_what_is_reported_on_it(hybrid):
    random = np.random.default_rng(3)
    relevant = random.integers(TITLES, size=24)
    task = task_of(relevant)
    half = folds(task)
    # Members that were tuned themselves: other rankings for either half.
    tables = random.random((2, 2, 24, TITLES))

    def fused(task):
        members = {
            name: by_fold([kept(task, one) for one in (*pair, pair[0])])
            for name, pair in zip("ab", tables, strict=True)
            if name in hybrid.members
        }
        run, _ = fuse(hybrid, members, LOG_PRIOR, task, "ndcg@3")
        return of_fold(run, half).partition_by("query")

    changed = np.where(half == 0, (relevant + 1) % TITLES, relevant)
    before, after = fused(task), fused(task_of(changed))
    for row in np.flatnonzero(half == 0):
        assert before[row].equals(after[row])


def test_weights_for_a_half_are_chosen_by_the_members_as_they_were_tuned_for_that_half():
    relevant = [0, 1, 2, 3] * 6
    task = task_of(relevant)
    right = np.eye(TITLES)[relevant]
    good, bad = (kept(task, table) for table in (right, 1 - right))
    # As tuned for the first half only `a` is right, as tuned for the second only `b`.
    members = {"a": by_fold([good, bad, good]), "b": by_fold([bad, good, bad])}
    fused, about = fuse(Hybrid.parse("a+b", ["a", "b"]), members, NO_PRIOR, task, "ndcg@1")
    assert ranks(fused, task) == [1] * 24
    own, other = (one["values"] for one in about["chosen"])
    assert own["a"] > own["b"]
    assert other["b"] > other["a"]


def test_one_query_leaves_nothing_to_choose_by():
    task = task_of([1])
    hybrid = Hybrid.parse("a+b", ["a", "b"])
    one = kept(task, [[1.0, 2.0, 3.0, 4.0]])
    fused, about = fuse(hybrid, {"a": one, "b": one}, NO_PRIOR, task, "ndcg@10")
    assert ranks(fused, task) == [3]
    assert "fewer than two different queries" in about["chosen"]


@pytest.mark.parametrize("members", [2, 3])
def test_weights_add_up_to_one_and_differ(members):
    found = weightings(members)
    assert len(set(found)) == len(found)
    assert all(sum(weights) == pytest.approx(1) and min(weights) >= 0 for weights in found)
    assert found[0] == min(found, key=lambda weights: max(weights) - min(weights))
    # Each member alone is among them.
    for place in range(members):
        assert tuple(float(place == other) for other in range(members)) in found


def test_names_with_a_plus_sign_are_found():
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


def test_the_final_weights_are_chosen_on_all_queries_by_the_members_final_rankings():
    relevant = [0, 1, 2, 3] * 3
    task = task_of(relevant)
    good = np.eye(TITLES)[relevant]
    wrong = kept(task, 1 - good)
    # By halves the first member is always wrong; as it is deployed it is always right.
    members = {
        "first": by_fold([wrong, wrong, kept(task, good)]),
        "other": kept(task, np.tile([4.0, 3.0, 2.0, 1.0], (12, 1))),
    }
    hybrid = Hybrid.parse("first+other", ["first", "other"])
    fused, about = fuse(hybrid, members, NO_PRIOR, task, "ndcg@10")
    assert about["final"]["first"] > 0.5
    assert set(ranks(fused, task)) != {1}
