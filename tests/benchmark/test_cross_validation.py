import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.benchmark.cross_validation import (
    ByHalf,
    choose,
    chosen_to_json,
    grid,
    halves,
    to_choose_by,
)
from dssm_tf.evaluation.evaluate import measure
from dssm_tf.evaluation.metrics import per_query
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.evaluation.typos import SUFFIX, misspelt
from dssm_tf.tables.judgments import CorpusTitle, Judgment
from tests.rankers import texts

TITLES = texts("title", 4)
CORPUS = [CorpusTitle(title, title) for title in TITLES]


def task_of(queries, grades=None):
    """A task in which query i has title i % 4 as relevant, or the given grade of it."""
    grades = grades or [1.0] * len(queries)
    return RankingTask(
        [
            Judgment(f"q{n:02d}", query, TITLES[n % 4], TITLES[n % 4], grade)
            for n, (query, grade) in enumerate(zip(queries, grades, strict=True))
        ],
        CORPUS,
    )


class Constant:
    """Scores the titles of every query alike."""

    def __init__(self, scores):
        self.scores = np.array(scores, dtype=float)

    def block(self, queries, columns):
        return np.tile(self.scores, (len(queries), 1))


@given(st.lists(st.text("ab c", min_size=0, max_size=6), min_size=1, max_size=30))
def test_halves_are_even_and_equal_texts_stay_together(queries):
    task = task_of(queries)
    half = halves(task)
    of_text = {}
    for query, number in zip(task.queries, half, strict=True):
        assert of_text.setdefault(" ".join(query.split()), number) == number
    counts = [list(of_text.values()).count(number) for number in (0, 1)]
    assert 0 <= counts[0] - counts[1] <= 1


def half_of(task):
    return dict(zip(task.queries, halves(task), strict=True))


def test_halves_do_not_depend_on_the_order_of_judgments_or_on_queries_that_do_not_count():
    queries = [f"query {n}" for n in range(12)]
    half = half_of(task_of(queries))
    assert half_of(task_of(queries[::-1])) == half
    more = [*queries, "bad one", "bad two"]
    grades = [1.0] * 12 + [0.0] * 2
    with_bad = half_of(task_of(more, grades))
    assert {query: with_bad[query] for query in queries} == half


def test_a_setting_is_chosen_on_the_half_that_it_is_not_reported_on():
    half = np.array([0, 0, 1, 1])
    # Setting 0 is best on the first half, setting 1 on the second; the last query does not count.
    values = [[0.9, 0.7, 0.1, np.nan], [0.2, 0.2, 0.6, np.nan]]
    assert choose(values, half) == (1, 0)


def test_the_first_of_equal_settings_is_chosen():
    assert choose([[0.5, 0.3], [0.5, 0.3]], np.array([0, 1])) == (0, 0)
    # 0.1 + 0.2 against 0.3: equal but for rounding
    values = [[0.3, 0.3, 0.0], [0.1, 0.5 + 1e-17, 0.0]]
    assert choose(values, np.array([0, 0, 1])) == (0, 0)


def test_nothing_is_chosen_without_queries_to_choose_by():
    assert choose([[0.5, np.nan], [0.6, np.nan]], np.array([0, 1])) is None


@given(st.data())
def test_judgments_of_a_half_take_no_part_in_the_choice_for_it(data):
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    half = np.array([0, 1] * 5)
    values = random.random((6, 10))
    other = values.copy()
    number = data.draw(st.sampled_from([0, 1]))
    other[:, half == number] = random.random((6, 5))
    before, after = choose(values, half), choose(other, half)
    assert before[number] == after[number]


def test_a_grid_holds_every_combination():
    assert grid({"k1": [0.5, 1.0], "b": [0, 1]}) == [
        {"k1": 0.5, "b": 0},
        {"k1": 0.5, "b": 1},
        {"k1": 1.0, "b": 0},
        {"k1": 1.0, "b": 1},
    ]


@pytest.fixture
def by_half():
    task = task_of(texts("query", 8))
    half = halves(task)
    up, down = (measure("s", Constant(row), task) for row in ([1, 2, 3, 4], [4, 3, 2, 1]))
    return task, half, ByHalf((up, down), half)


def test_joined_each_query_is_ranked_by_the_setting_of_its_half(by_half):
    _, half, kept = by_half
    joined = kept.joined()
    # Title n is at rank 4 - n under the first setting and at rank n + 1 under the second.
    expected = [4 - n % 4 if half[n] == 0 else n % 4 + 1 for n in range(8)]
    assert joined.ranks.rank.tolist() == expected
    assert per_query(joined.ranks, ["mrr@10"])["mrr@10"] == pytest.approx(
        [1 / rank for rank in expected]
    )
    firsts = [int(ranking.columns[0]) for ranking in joined.rankings]
    assert firsts == [3 if h == 0 else 0 for h in half]


@pytest.mark.parametrize("same", [False, True])
def test_saved_and_loaded_rankings_are_the_same(by_half, tmp_path, same):
    task, half, kept = by_half
    if same:
        kept = ByHalf.of_one(kept.settings[0], half)
    kept.save(tmp_path / "ranked.npz")
    loaded = ByHalf.load(tmp_path / "ranked.npz", task, half)
    assert (loaded.settings[0] is loaded.settings[1]) == same
    for ours, theirs in zip(kept.settings, loaded.settings, strict=True):
        assert (ours.ranks.rank == theirs.ranks.rank).all()
        assert (ours.ranks.grade == theirs.ranks.grade).all()
        for a, b in zip(ours.rankings, theirs.rankings, strict=True):
            assert (a.columns == b.columns).all()
            assert (a.scores == b.scores).all()


def test_a_system_that_ranks_nothing_for_a_query_is_saved_too(tmp_path):
    task = task_of(["one", "two"])
    measured = measure("s", Constant([-np.inf] * 4), task)
    ByHalf.of_one(measured, halves(task)).save(tmp_path / "r.npz")
    loaded = ByHalf.load(tmp_path / "r.npz", task, halves(task)).joined()
    assert loaded.ranks.rank.tolist() == [0, 0]
    assert [len(ranking.columns) for ranking in loaded.rankings] == [0, 0]


def test_what_was_chosen_is_told_with_both_halves_figures():
    half = np.array([0, 0, 1])
    values = [np.array([0.8, 0.6, 0.1]), np.array([0.2, 0.4, 0.5])]
    found = chosen_to_json([{"b": 0}, {"b": 1}], (1, 0), (values, values), half, "ndcg@10")
    # For half 1, b = 1: 0.5 on half 2, and (0.2 + 0.4) / 2 on half 1.
    assert found[0]["values"] == {"b": 1}
    assert (found[0]["tuned"], found[0]["reported"]) == pytest.approx((0.5, 0.3))
    assert (found[0]["tuned_on"], found[0]["reported_on"]) == ("half 2", "half 1")
    assert (found[1]["tuned"], found[1]["reported"]) == pytest.approx((0.7, 0.1))
    json.dumps(found)


def test_ids_that_end_like_those_of_typing_errors_are_queries_as_they_are():
    # As in `BENCH/typos/qrels.trec`, given as judgments.
    found = RankingTask([*misspelt(task_of(texts("query", 6)).qrels())], CORPUS)
    assert not found.misspelt.any()
    assert sorted(halves(found)) == [0, 0, 0, 1, 1, 1]


def test_nothing_is_chosen_by_a_query_with_a_typing_error():
    plain = task_of([f"query {word}" for word in ("one", "two", "three", "four", "five")])
    both = RankingTask([*plain.qrels(), *misspelt(plain.qrels())], CORPUS)
    half = dict(zip(both.query_ids, halves(both), strict=True))
    assert {name: half[name] for name in plain.query_ids} == dict(
        zip(plain.query_ids, halves(plain), strict=True)
    )
    assert all(half[name + SUFFIX] == half[name] for name in plain.query_ids)
    ranks = measure("one", Constant([4, 3, 2, 1]), both).ranks
    values = to_choose_by(ranks, "mrr@10", both)
    assert np.isnan(values).tolist() == [name.endswith(SUFFIX) for name in both.query_ids]
