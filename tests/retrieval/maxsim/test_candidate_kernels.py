"""The first step of a search against NumPy: numbers are multiples of 1/64, so sums are exact."""

from __future__ import annotations

import numpy as np
import pytest

from dssm_tf.retrieval.candidate_kernels import best_titles

pytestmark = pytest.mark.filterwarnings("error")


def _multiples(rng, low, high, size, dtype=np.float32):
    return (rng.integers(low, high, size) / 64).astype(dtype)


def _postings(rng, words, titles, mean):
    lists = [
        np.flatnonzero(rng.random(titles) < rng.random() * mean / titles) for _ in range(words)
    ]
    starts = np.append(0, np.cumsum([len(found) for found in lists])).astype(np.int64)
    return lists, starts, np.concatenate(lists).astype(np.int32)


@pytest.mark.parametrize("depth", [1, 10, 200, 30_000])
@pytest.mark.parametrize("mean", [40, 20_000])
def test_the_best_titles_are_those_of_numpy_with_ties_by_title(depth, mean):
    rng = np.random.default_rng(depth + mean)
    titles, words, pairs = 25_000, 40, 5
    lists, starts, word_titles = _postings(rng, words, titles, mean)
    pair_lists, pair_starts, pair_titles = _postings(rng, pairs, titles, mean)
    weights, pair_weights = _multiples(rng, 1, 9, words), _multiples(rng, 1, 9, pairs, np.float64)
    inverse_totals, priors = np.full(titles, 0.5, np.float32), _multiples(rng, -200, 1, titles)
    allowed = rng.random(titles) < 0.9
    rows = rng.permutation(words)[:24].astype(np.int32)
    similarities = -np.sort(-_multiples(rng, 8, 65, (3, 8)), axis=1)
    query_weights, query_pairs = np.array([0.5, 0.25, 0.25]), np.array([1, 3])
    query_pair_weights = np.array([0.25, 0.5])

    found = best_titles(
        starts, word_titles, pair_starts, pair_titles, weights, pair_weights, inverse_totals,
        priors, allowed, np.array([8, 16, 24]), rows, similarities.ravel(), query_weights,
        query_pairs, query_pair_weights, depth,
    )  # fmt: skip

    query_side, title_side, matched = np.zeros(titles), np.zeros(titles), np.zeros(titles, bool)
    for word in range(3):
        best = np.zeros(titles)
        for row, similarity in zip(rows.reshape(3, 8)[word], similarities[word], strict=True):
            best[lists[row]] = np.maximum(best[lists[row]], similarity)
            title_side[lists[row]] += weights[row] * similarity
            matched[lists[row]] = True
        query_side += query_weights[word] * best
    for pair, weight in zip(query_pairs, query_pair_weights, strict=True):
        query_side[pair_lists[pair]] += weight
        title_side[pair_lists[pair]] += pair_weights[pair]
        matched[pair_lists[pair]] = True
    scores = query_side + title_side * inverse_totals + priors
    candidates = np.flatnonzero(matched & allowed)
    expected = candidates[np.lexsort((candidates, -scores[candidates]))][:depth]
    assert len(found) == min(depth, len(candidates)) > 0
    assert sorted(found.tolist()) == sorted(expected.tolist())
