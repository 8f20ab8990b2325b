"""How an index is set so that it finds enough of what exact search finds."""

from __future__ import annotations

import numpy as np
import pytest

from dssm_tf.retrieval import recall as module
from dssm_tf.retrieval.approximate import SETTINGS, Setting
from dssm_tf.retrieval.index import ExactIndex
from dssm_tf.retrieval.recall import Measured, choose_index, probe_queries, recall
from tests.retrieval.conftest import unit


def test_recall_counts_titles_as_good_as_the_last_exact_one():
    exact = np.array([[0.9, 0.8, 0.5], [0.7, 0.7, 0.7]])
    # Of the first query .9 and the tie at .5 count, .4 does not; of the second all but the gap.
    found = np.array([[0.9, 0.5, 0.4], [0.7, 0.7, -np.inf]])
    assert recall(found, exact).tolist() == pytest.approx([2 / 3, 2 / 3])


def test_an_index_is_set_to_reach_the_target_on_the_queries_that_are_reported():
    pytest.importorskip("faiss")
    vectors, queries = unit(4000, 16, seed=1), unit(200, 16, seed=2)
    reached = {}
    for target in (0.5, 0.98):
        index, measured = choose_index(vectors, lambda: queries, "ivf", target)
        exact = ExactIndex(vectors).search(queries[1::2], 10)[0]
        ours = recall(index.search(queries[1::2], 10)[0], exact).mean()
        assert measured.queries == 100
        assert measured.recall[0] == pytest.approx(ours)
        assert ours >= target
        reached[target] = measured.setting[1]
    # Half of the answer is found in fewer cells.
    assert reached[0.5] < reached[0.98]


class _Blind:
    """An index that finds nothing for some rows of the queries that it is given, by its setting."""

    def __init__(self, vectors, missed, value=None):
        self.vectors, self.missed, self.value = vectors, missed, value
        self.setting = Setting("efSearch", value)

    def with_value(self, value):
        return _Blind(self.vectors, self.missed, value)

    def search(self, queries, k):
        scores, rows = ExactIndex(self.vectors).search(queries, k)
        lost = [row for row, one in enumerate(queries) if tuple(one) in self.missed[self.value]]
        scores[lost] = -np.inf
        return scores, rows


@pytest.mark.parametrize(
    ("choosing", "confirming", "setting", "said"),
    [
        ({64: 20, 128: 0}, {64: 0, 128: 0}, 128, "recall@10 1.000, @100 1.000, on 100 queries"),
        # 98 of 100 reach the target, and might as well be 95 of 100 by chance.
        ({64: 2, 128: 0}, {64: 0, 128: 0}, 128, "recall@10 1.000"),
        # What confirms does not choose: the setting stays, and its recall there is reported.
        ({64: 0}, {64: 1, 128: 0}, 64, "recall@10 .990, @100 .990, on 100 queries"),
        ({64: 0}, {64: 3, 128: 0}, None, "hnsw finds 0.9700 of what it should (recall@10), and"),
    ],
)
def test_one_half_of_the_queries_chooses_and_the_other_confirms(
    monkeypatch, choosing, confirming, setting, said
):
    """A setting that both halves had to pass was reported by a half that had chosen it."""
    vectors, queries = unit(300, 8, seed=1), unit(200, 8, seed=2)
    missed = {value: set() for value in SETTINGS["hnsw"][1]}
    for half, numbers in ((queries[::2], choosing), (queries[1::2], confirming)):
        for value, number in numbers.items():
            missed[value] |= {tuple(one) for one in half[:number]}
    monkeypatch.setattr(
        module.ApproximateIndex, "build", lambda vectors, kind: _Blind(vectors, missed)
    )
    _, measured = choose_index(vectors, lambda: queries, "hnsw")
    assert measured.setting == (setting and ("efSearch", setting))
    assert said in measured.sentence()


def test_where_titles_are_nearly_equal_a_graph_gives_way_and_says_so():
    """Four heaps of twins: links lead to twins of one heap, and few of them out of it."""
    pytest.importorskip("faiss")
    twins = np.repeat(unit(4, 16, seed=3), 2000, axis=0)
    vectors = twins + np.float32(1e-5) * unit(8000, 16, seed=4)
    queries = twins[::100] + np.float32(0.01) * unit(80, 16, seed=5)
    index, measured = choose_index(vectors, lambda: queries, "hnsw")
    assert isinstance(index, ExactIndex)
    assert measured.kind == "exact"
    assert "as happens where titles are nearly equal; exact: all titles" in measured.sentence()


@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
def test_an_index_that_cannot_reach_the_target_gives_way(monkeypatch, kind):
    pytest.importorskip("faiss")
    monkeypatch.setitem(SETTINGS, kind, (SETTINGS[kind][0], (1,)))
    vectors, queries = unit(4000, 64, seed=1), unit(80, 64, seed=2)
    index, measured = choose_index(vectors, lambda: queries, kind)
    assert isinstance(index, ExactIndex)
    assert f"{kind} finds 0." in measured.sentence()


def test_auto_compares_all_of_a_small_corpus_and_few_of_a_large_one(monkeypatch):
    pytest.importorskip("faiss")
    vectors, queries = unit(4000, 8, seed=1), unit(80, 8, seed=2)
    assert choose_index(vectors, lambda: queries)[1] == Measured("exact")
    monkeypatch.setattr(module, "EXACT_UP_TO", 3999)
    assert choose_index(vectors, lambda: queries)[1].kind == "hnsw"
    monkeypatch.setattr(module, "_has_faiss", lambda: False)
    assert "faiss is not installed; exact" in choose_index(vectors, lambda: queries)[1].sentence()


def test_probe_queries_are_some_words_of_titles():
    titles = ["Red Hat", "?!", "one two three four five six"]
    made = probe_queries(titles * 50, 60)
    assert len(made) == 60
    assert made == probe_queries(titles * 50, 60)
    for query in made:
        assert query
        assert set(query.split()) <= {"red", "hat", "one", "two", "three", "four", "five", "six"}
    assert any(len(query.split()) < 6 for query in made if "o" in query)
