import builtins
import sys

import numpy as np
import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.model.prior import with_column
from dssm_tf.retrieval import index as module
from dssm_tf.retrieval.approximate import SETTINGS, ApproximateIndex
from dssm_tf.retrieval.index import ExactIndex, FlatIndex
from tests.retrieval.conftest import unit

pytestmark = pytest.mark.numeric

TITLES = np.array([[1, 0], [0, 1], [0.6, 0.8], [1, 0]], np.float32)
BIAS = np.array([-0.5, 0.0, 0.0, -0.5], np.float32)


def flat(vectors):
    pytest.importorskip("faiss")
    return FlatIndex(vectors)


def approximate(kind):
    def make(vectors):
        pytest.importorskip("faiss")
        vectors = np.asarray(vectors, np.float32)
        return ApproximateIndex.build(vectors, kind, SETTINGS[kind][1][-1])

    make.__name__ = kind
    return make


EVERY = [ExactIndex, flat, *map(approximate, SETTINGS)]


def by_hand(vectors, queries, k):
    """Scores in double precision, rounded once; ties by row."""
    scores = np.array(
        [[(t.astype(float) * q).sum() for t in vectors] for q in queries.astype(float)]
    ).astype(np.float32)
    rows = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(scores, rows, axis=1), rows


@pytest.mark.parametrize("make", EVERY)
class TestEveryIndex:
    def test_scores_are_the_product_and_ties_go_by_row(self, make):
        scores, rows = make(TITLES).search([[1, 0]], 3)
        # 1, 0, .6, 1: rows 0 and 3 tie
        assert rows.tolist() == [[0, 3, 2]]
        np.testing.assert_allclose(scores, [[1, 1, 0.6]], rtol=1e-6)

    def test_the_prior_counts_while_searching(self, make):
        scores, rows = make(with_column(TITLES, BIAS)).search([[1, 0, 1]], 2)
        # 1 - .5, 0, .6, 1 - .5: row 2 wins
        assert rows.tolist() == [[2, 0]]
        np.testing.assert_allclose(scores, [[0.6, 0.5]], rtol=1e-6)

    def test_k_is_cut_to_the_titles(self, make):
        scores, rows = make(TITLES).search(np.eye(2), 9)
        assert scores.shape == rows.shape == (2, 4)
        assert scores.dtype == np.float32
        assert rows.dtype == np.int64

    def test_no_query_gives_no_rows(self, make):
        scores, rows = make(TITLES).search(np.zeros((0, 2)), 3)
        assert scores.shape == rows.shape == (0, 3)

    @pytest.mark.parametrize(
        ("queries", "k", "message"),
        [
            ([[1, 0, 0]], 1, "shape"),
            ([1, 0], 1, "shape"),
            ([[np.nan, 0]], 1, "finite"),
            ([[1, 0]], 0, "k is 0"),
        ],
    )
    def test_a_query_that_does_not_fit_is_refused(self, make, queries, k, message):
        with pytest.raises(ValueError, match=message):
            make(TITLES).search(queries, k)

    def test_given_rows_alone_are_found(self, make):
        index = make(TITLES)
        scores, rows = index.search([[1, 0], [0, 1]], 3, np.array([1, 2]))
        assert rows.tolist() == [[2, 1], [1, 2]]
        np.testing.assert_allclose(scores, [[0.6, 0], [1, 0.8]], rtol=1e-6)
        assert index.search([[1, 0]], 3, np.zeros(0, np.int64))[1].shape == (1, 0)


@pytest.mark.parametrize("make", [ExactIndex, FlatIndex])
@pytest.mark.parametrize("vectors", [np.zeros((0, 2)), np.zeros(3)])
def test_what_is_no_matrix_of_titles_is_refused(make, vectors):
    if make is FlatIndex:
        pytest.importorskip("faiss")
    with pytest.raises(ValueError, match="at least one"):
        make(vectors)


@pytest.mark.parametrize("make", [ExactIndex, flat])
@pytest.mark.parametrize("k", [1, 10, 40])
def test_blocks_find_what_one_sort_finds(monkeypatch, make, k):
    monkeypatch.setattr(module, "_BLOCK", 32)
    monkeypatch.setattr(module, "_QUERIES", 3)
    distinct = unit(70, 7, seed=1)
    # Each vector three times, far apart: ties within and across blocks.
    bias = np.linspace(0, 0.3, 70, dtype="f4")
    vectors = np.tile(with_column(distinct, bias), (3, 1))
    queries = with_column(np.concatenate([unit(9, 7, seed=2), distinct[:3]]), 1)
    scores, rows = make(vectors).search(queries, k)
    expected_scores, expected_rows = by_hand(vectors, queries, k)
    np.testing.assert_array_equal(rows, expected_rows)
    np.testing.assert_array_equal(scores, expected_scores)


def test_a_query_alone_scores_as_in_a_batch():
    vectors, queries = unit(500, 33, seed=3), unit(20, 33, seed=4)
    index = ExactIndex(vectors)
    batch_scores, batch_rows = index.search(queries, 20)
    for query in range(20):
        scores, rows = index.search(queries[query : query + 1], 20)
        np.testing.assert_array_equal(rows[0], batch_rows[query])
        np.testing.assert_array_equal(scores[0], batch_scores[query])


def test_a_zero_query_ranks_by_the_prior_and_then_by_row(monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 3)
    rows = ExactIndex(unit(8, 4, seed=5)).search(np.zeros((1, 4)), 5)[1]
    assert rows.tolist() == [[0, 1, 2, 3, 4]]
    titles = with_column(unit(4, 4, seed=5), [0.0, 2.0, 1.0, 2.0])
    rows = ExactIndex(titles).search([[0, 0, 0, 0, 1]], 4)[1]
    assert rows.tolist() == [[1, 3, 2, 0]]


def test_rounding_in_the_product_never_decides(monkeypatch):
    """Scores that differ by less than a float32 product can tell are ordered all the same."""
    monkeypatch.setattr(module, "_BLOCK", 64)
    generator = np.random.default_rng(6)
    vectors = generator.normal(0, 100, (300, 96)).astype(np.float32)
    # Sums of about 1e-6 out of numbers of about 100: single precision errs by about 1e-4.
    vectors[:, -1] = -vectors[:, :-1].sum(axis=1, dtype=np.float64)
    query = np.ones((1, 96), np.float32)
    scores, rows = ExactIndex(vectors).search(query, 12)
    expected_scores, expected_rows = by_hand(vectors, query, 12)
    np.testing.assert_array_equal(rows, expected_rows)
    np.testing.assert_array_equal(scores, expected_scores)


@pytest.mark.parametrize("make", EVERY)
def test_a_prior_lifts_the_title_that_is_farthest(make):
    vectors, bias = unit(300, 8, seed=10), np.zeros(300, np.float32)
    farthest = int(np.argmin(vectors @ vectors[0]))
    bias[farthest] = 3.0
    queries = with_column(vectors[:1], 1)
    found = make(with_column(vectors, bias)).search(queries, 2)[1]
    assert found.tolist() == [[farthest, 0]]


@pytest.mark.parametrize("make", EVERY)
def test_a_filter_finds_what_exact_search_finds_among_its_rows(make, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 32)
    vectors, queries = unit(300, 8, seed=11), unit(5, 8, seed=12)
    rows = np.arange(0, 300, 3)
    scores, found = make(vectors).search(queries, 20, rows)
    expected_scores, places = by_hand(vectors[rows], queries, 20)
    np.testing.assert_array_equal(found, rows[places])
    np.testing.assert_array_equal(scores, expected_scores)


def test_a_memory_mapped_file_is_searched_as_it_lies(tmp_path):
    vectors = unit(50, 6, seed=7)
    np.save(tmp_path / "v.npy", vectors)
    mapped = np.load(tmp_path / "v.npy", mmap_mode="r")
    expected = ExactIndex(vectors).search(vectors[:4], 5)
    np.testing.assert_array_equal(ExactIndex(mapped).search(vectors[:4], 5), expected)


@pytest.mark.parametrize("kind", SETTINGS)
def test_an_approximate_index_finds_more_the_longer_it_searches(kind, tmp_path):
    pytest.importorskip("faiss")
    vectors = with_column(unit(3000, 16, seed=8), np.linspace(0, 0.2, 3000, dtype=np.float32))
    queries = with_column(unit(50, 16, seed=9), 1)
    exact = ExactIndex(vectors).search(queries, 10)[1]
    index = ApproximateIndex.build(vectors, kind)

    def shared(one):
        found = one.search(queries, 10)[1]
        return np.mean([len(np.intersect1d(a, b)) for a, b in zip(exact, found, strict=True)])

    values = SETTINGS[kind][1]
    assert shared(index.with_value(values[-1])) > 9.9
    assert shared(index.with_value(values[-1])) >= shared(index.with_value(values[0]))
    index.save(tmp_path / "i.faiss")
    loaded = ApproximateIndex.load(tmp_path / "i.faiss", vectors, kind, values[1])
    for mine, theirs in zip(
        index.with_value(values[1]).search(queries, 7), loaded.search(queries, 7), strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)


def test_without_faiss_the_error_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *arguments, **keywords):
        if name == "faiss":
            raise ImportError("No module named 'faiss'")
        return real(name, *arguments, **keywords)

    monkeypatch.delitem(sys.modules, "faiss", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UserError, match=r"-m pip install .*\[search\]'"):
        FlatIndex(TITLES)


def test_an_unknown_kind_is_refused():
    pytest.importorskip("faiss")
    with pytest.raises(ValueError, match="expected one of int8, ivf, hnsw"):
        ApproximateIndex.build(TITLES, "pq")
