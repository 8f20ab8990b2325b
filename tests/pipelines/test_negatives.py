"""Negatives are drawn in proportion to clicks ** alpha; test_exact says which may be drawn."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from pipelines.negatives import EMPTY, NegativePool, fill_from_pool, seeded_hash


def pool(clicks, alpha=1.0) -> NegativePool:
    return NegativePool(np.array([*clicks.values()], np.int64), alpha)


def keys(rows: int, seed: int = 0):
    return seeded_hash(np.arange(rows, dtype=np.uint64), seed, 1)


def draw(one: NegativePool, number: int, rows: int = 1, excluded=(), seed: int = 0):
    """Numbers of titles, `(rows, number)`; those excluded are clicked for every row's query."""
    found = np.full((rows, number), EMPTY)
    clicked = np.array(excluded, np.int64)  # query 0
    fill_from_pool(found, np.zeros(rows, np.int64), keys(rows, seed), clicked, one)
    return found


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_titles_are_drawn_in_proportion_to_clicks_to_the_alpha(alpha):
    clicks, trials = {"a": 1, "b": 4, "c": 16, "d": 64}, 20_000
    found = np.bincount(draw(pool(clicks, alpha), 1, trials)[:, 0], minlength=4) / trials
    weights = np.array([*clicks.values()]) ** alpha
    expected = weights / weights.sum()
    error = np.sqrt(expected * (1 - expected) / trials)
    assert np.all(np.abs(found - expected) < 4.5 * error)


def test_the_second_draw_is_in_proportion_among_what_is_left():
    # P(b second | a first) = 2 / (2 + 5), and so on: successive sampling.
    trials = 20_000
    found = draw(pool({"a": 3, "b": 2, "c": 5}), 2, trials)
    expected = 3 / 10 * 2 / 7
    share = np.mean((found == [0, 1]).all(1))
    assert abs(share - expected) < 4.5 * np.sqrt(expected / trials)


@pytest.mark.parametrize("heavy", [1, 10**13])
def test_rows_that_chance_leaves_short_draw_as_others_do(heavy):
    # 400 titles clicked for the query hold nearly all weight, so that rejection gives up; of the
    # others one may, too, and then the second negative is found by looking at every title.
    clicks = {f"x{n:03d}": 10_000 * heavy for n in range(400)} | {"y": 1, "z": 3}
    clicks |= {"heavy": heavy} if heavy > 1 else {}
    trials, places = 1500, 1 + (heavy > 1)
    drawn = draw(pool(clicks), places, trials, range(400))
    found = Counter(drawn[:, -1].tolist())
    assert set(found) == {400, 401}
    assert abs(found[400] / trials - 0.25) < 4.5 * np.sqrt(0.25 * 0.75 / trials)


def test_a_query_of_which_most_titles_were_clicked_costs_no_look_at_every_title(monkeypatch):
    monkeypatch.setattr(np, "setdiff1d", None)
    clicks = dict.fromkeys(map(str, range(20_000)), 1)
    rows = draw(pool(clicks), 4, 20_000, range(19_000))
    assert (rows >= 19_000).all()


def test_random_numbers_depend_on_the_seed_and_the_purpose():
    numbers = np.arange(40, dtype=np.uint64)
    found = [seeded_hash(numbers, seed, purpose) for seed in (0, 1, -1) for purpose in range(2)]
    assert len(np.unique(found)) == 6 * 40
