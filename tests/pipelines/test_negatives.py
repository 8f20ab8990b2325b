"""Negatives are drawn in proportion to clicks ** alpha; `test_exact` checks which may be drawn."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from pipelines.negatives import EMPTY, NegativePool, fill_from_pool, seeded_hash


def new_pool(clicks, alpha=1.0) -> NegativePool:
    return NegativePool(np.array([*clicks.values()], np.int64), alpha)


def keys(rows: int, seed: int = 0):
    return seeded_hash(np.arange(rows, dtype=np.uint64), seed, 1)


def draw(pool: NegativePool, negatives: int, rows: int = 1, excluded=(), seed: int = 0):
    """Draws titles `(rows, negatives)` for query 0, which has clicks on the excluded titles."""
    result = np.full((rows, negatives), EMPTY)
    clicked = np.array(excluded, np.int64)
    fill_from_pool(result, np.zeros(rows, np.int64), keys(rows, seed), clicked, pool)
    return result


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_titles_are_drawn_in_proportion_to_clicks_to_the_alpha(alpha):
    clicks, trials = {"a": 1, "b": 4, "c": 16, "d": 64}, 20_000
    fractions = np.bincount(draw(new_pool(clicks, alpha), 1, trials)[:, 0], minlength=4) / trials
    weights = np.array([*clicks.values()]) ** alpha
    expected = weights / weights.sum()
    error = np.sqrt(expected * (1 - expected) / trials)
    assert np.all(np.abs(fractions - expected) < 4.5 * error)


def test_the_second_draw_is_in_proportion_among_the_remaining_titles():
    # P(b second | a first) = 2 / (2 + 5), and so on: successive sampling.
    trials = 20_000
    titles = draw(new_pool({"a": 3, "b": 2, "c": 5}), 2, trials)
    expected = 3 / 10 * 2 / 7
    fraction = np.mean((titles == [0, 1]).all(1))
    assert abs(fraction - expected) < 4.5 * np.sqrt(expected / trials)


@pytest.mark.parametrize("heavy", [1, 10**13])
def test_rows_that_rejection_leaves_incomplete_have_the_same_distribution(heavy):
    # 400 titles clicked for the query have nearly all weight, so that rejection gives up. A heavy
    # unclicked title makes it give up again; then the negative is drawn from a list of titles.
    clicks = {f"x{n:03d}": 10_000 * heavy for n in range(400)} | {"y": 1, "z": 3}
    clicks |= {"heavy": heavy} if heavy > 1 else {}
    trials, negatives = 1500, 1 + (heavy > 1)
    titles = draw(new_pool(clicks), negatives, trials, range(400))
    counts = Counter(titles[:, -1].tolist())
    assert set(counts) == {400, 401}
    assert abs(counts[400] / trials - 0.25) < 4.5 * np.sqrt(0.25 * 0.75 / trials)


def test_negatives_of_a_query_with_many_clicked_titles_need_no_list_of_titles(monkeypatch):
    monkeypatch.setattr(np, "setdiff1d", None)
    clicks = dict.fromkeys(map(str, range(20_000)), 1)
    rows = draw(new_pool(clicks), 4, 20_000, range(19_000))
    assert (rows >= 19_000).all()


def test_hashes_depend_on_the_seed_and_the_purpose():
    numbers = np.arange(40, dtype=np.uint64)
    hashes = [seeded_hash(numbers, seed, purpose) for seed in (0, 1, -1) for purpose in range(2)]
    assert len(np.unique(hashes)) == 6 * 40
