"""Exact and fast indexes of vectors: results, ties, saving, and the recall of the fast index."""

import builtins
import sys

import numpy as np
import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.retrieval import nearest as module
from dssm_tf.retrieval.nearest import EXACT, Nearest, recall
from tests.retrieval.conftest import random_unit_vectors

pytest.importorskip("faiss")
pytestmark = pytest.mark.numeric

TITLES = np.array([[1, 0], [0, 1], [0.6, 0.8], [1, 0]], np.float32)


def append_column(vectors, values):
    return np.column_stack([vectors, np.float32(values)])


def build_exact(vectors):
    return Nearest.build(vectors)


def build_fast(vectors):
    return Nearest.build(vectors, "fast")


def exact_search(vectors, query, k):
    """Scores in double precision, rounded once; ties by row."""
    scores = np.array([(title.astype(float) * query).sum() for title in vectors], np.float32)
    rows = np.argsort(-scores, kind="stable")[:k]
    return scores[rows], rows


@pytest.mark.parametrize("make", [build_exact, build_fast])
class TestEveryKind:
    def test_scores_are_inner_products_and_ties_are_ordered_by_row(self, make):
        scores, rows = make(TITLES).search(np.float32([1, 0]), 3)
        # 1, 0, .6, 1: rows 0 and 3 tie
        assert rows.tolist() == [0, 3, 2]
        np.testing.assert_allclose(scores, [1, 1, 0.6], rtol=1e-6)
        assert scores.dtype == np.float32
        assert len(make(TITLES).search(np.float32([1, 0]), 9)[0]) == 4

    def test_a_prior_can_rank_the_farthest_title_first(self, make):
        vectors, bias = random_unit_vectors(300, 8, seed=10), np.zeros(300, np.float32)
        farthest = int(np.argmin(vectors @ vectors[0]))
        bias[farthest] = 3.0
        query = append_column(vectors[:1], [1])[0]
        assert make(append_column(vectors, bias)).search(query, 2)[1].tolist() == [farthest, 0]

    def test_a_saved_index_returns_the_same_results(self, make, tmp_path):
        vectors, query = random_unit_vectors(500, 7, seed=3), random_unit_vectors(1, 7, seed=4)[0]
        before = make(vectors)
        before.save(tmp_path / "i")
        after = Nearest.open(tmp_path / "i")
        for expected, actual in zip(before.search(query, 6), after.search(query, 6), strict=True):
            np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("k", [1, 10, 40])
def test_an_exact_index_equals_a_full_sort(k):
    distinct = random_unit_vectors(70, 7, seed=1)
    # Each vector occurs three times, in distant rows.
    vectors = np.tile(append_column(distinct, np.linspace(0, 0.3, 70, dtype="f4")), (3, 1))
    for query in append_column(
        np.concatenate([random_unit_vectors(9, 7, seed=2), distinct[:3]]), [1] * 12
    ):
        scores, rows = build_exact(vectors).search(query, k)
        expected, expected_rows = exact_search(vectors, query, k)
        np.testing.assert_array_equal(rows, expected_rows)
        np.testing.assert_array_equal(scores, expected)


def test_without_faiss_the_error_names_the_package_to_install(monkeypatch):
    real = builtins.__import__

    def import_without_faiss(name, *arguments, **keywords):
        if name == "faiss":
            raise ImportError("No module named 'faiss'")
        return real(name, *arguments, **keywords)

    monkeypatch.delitem(sys.modules, "faiss", raising=False)
    monkeypatch.setattr(builtins, "__import__", import_without_faiss)
    with pytest.raises(UserError, match=r"-m pip install .*\[search\]'"):
        Nearest.build(TITLES)


# --------------------------------------------------------------------------- recall


def test_a_fast_index_reports_its_recall():
    vectors = append_column(
        random_unit_vectors(3000, 16, seed=8), np.linspace(0, 0.2, 3000, dtype=np.float32)
    )
    queries = append_column(random_unit_vectors(50, 16, seed=9), [1] * 50)
    nearest = Nearest.build(vectors, "fast", lambda: queries)
    recalls = {10: [], 100: []}
    for query in queries:
        for k, k_recalls in recalls.items():
            best = exact_search(vectors, query, k)[1]
            k_recalls.append(len(np.intersect1d(nearest.search(query, k)[1], best)) / k)
    at_10, at_100 = map(np.mean, recalls.values())
    assert nearest.summary == f"fast: recall@10 {at_10:.3f}, @100 {at_100:.3f}, on 50 queries"


def test_a_title_that_ties_with_the_last_counts_for_recall(monkeypatch):
    nearest = build_exact(TITLES)
    # Rows 0 and 3 are equal and best; row 2 is not.
    for row, score, expected in ((3, 1.0, 1), (2, 0.6, 0)):
        monkeypatch.setattr(
            nearest,
            "search",
            lambda query, k, row=row, score=score: (np.float32([score]), np.array([row])),
        )
        assert recall(nearest, TITLES, np.float32([[1, 0]]), 1) == expected


def test_auto_is_exact_up_to_the_limit(monkeypatch):
    monkeypatch.setattr(module, "EXACT_UP_TO", 100)
    queries = random_unit_vectors(20, 4, seed=1)
    for count, graph in ((100, False), (101, True)):
        nearest = Nearest.build(random_unit_vectors(count, 4, seed=2), "auto", lambda: queries)
        assert hasattr(nearest.index, "hnsw") == graph
        assert (nearest.summary == EXACT) != graph
