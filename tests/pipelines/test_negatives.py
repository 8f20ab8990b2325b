"""Negatives: distinct, never clicked, in proportion to clicks ** alpha, reproducible."""

from __future__ import annotations

from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.negatives import NONE, Clicked, NegativePool, add_drawn, add_shown, smallest
from pipelines.options import PreprocessOptions
from pipelines.sums import pool_of
from pipelines.texts import fingerprints, random


def entries(clicks: dict[str, int], alpha=1.0, size=1000, seed=0, held_out=None) -> pl.DataFrame:
    """Titles that may be drawn; held-out clicks count on top of those of the training part."""
    held_out = held_out or {}
    names = pl.Series(sorted({*clicks, *held_out}), dtype=pl.String)
    own = [clicks.get(one, 0) for one in names]
    titles = pl.DataFrame(
        {
            "fp": fingerprints(names), "title": range(len(names)), "clicks": own,
            "all": [n + held_out.get(one, 0) for n, one in zip(own, names, strict=True)],
        },
        schema_overrides={"clicks": pl.Int64, "all": pl.Int64, "title": pl.Int64},
    )  # fmt: skip
    options = PreprocessOptions(
        ("log",), "out", negative_alpha=alpha, negative_pool=size, seed=seed
    )
    return pool_of(titles, options).with_columns(number="title")


def pool(clicks, alpha=1.0, size=1000, seed=0, held_out=None, training=True) -> NegativePool:
    found = entries(clicks, alpha, size, seed, held_out)
    return NegativePool(found, size, alpha, training=training)


def keys(rows: int, seed: int = 0):
    return random(np.arange(rows, dtype=np.uint64), seed, 1)


def draw(one: NegativePool, number: int, rows: int = 1, excluded=(), seed: int = 0):
    """Numbers of titles, `(rows, number)`; those excluded are clicked for every row's query."""
    found = np.full((rows, number), NONE)
    query = np.zeros(rows, np.int64)
    clicked = Clicked(np.zeros(len(excluded), np.int64), np.array(excluded, np.int64), 1000)
    add_drawn(found, query, keys(rows, seed), clicked, one)
    return found


@given(
    clicks=st.lists(st.integers(1, 1000), min_size=1, max_size=10),
    excluded=st.sets(st.integers(0, 9)),
    number=st.integers(0, 12),
    alpha=st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    seed=st.integers(-5, 5),
)
def test_negatives_are_distinct_never_excluded_and_as_many_as_there_are(
    clicks, excluded, number, alpha, seed
):
    names = {f"{at}": n for at, n in enumerate(clicks)}
    rows = draw(pool(names, alpha), number, 3, sorted(excluded), seed)
    for row in rows:
        found = row[row != NONE].tolist()
        assert (row[: len(found)] == found).all()  # what is missing is missing at the end
        assert len(set(found)) == len(found)
        assert len(found) == min(number, len(set(range(len(clicks))) - excluded))
        assert not set(found) & excluded


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


def test_looking_at_every_title_draws_as_rejection_does():
    # 400 titles clicked for the query hold nearly all weight, so that rejection gives up.
    clicks = {f"x{n:03d}": 10_000 for n in range(400)} | {"y": 1, "z": 3}
    trials = 1500
    found = Counter(draw(pool(clicks), 1, trials, range(400))[:, 0].tolist())
    assert set(found) == {400, 401}
    assert abs(found[400] / trials - 0.25) < 4.5 * np.sqrt(0.25 * 0.75 / trials)


def test_training_records_draw_titles_of_the_training_part_alone():
    log = {"a": 5, "b": 5}, {"c": 50, "a": 1}
    train, rest = (pool(log[0], held_out=log[1], training=one) for one in (True, False))
    assert {*draw(train, 9)[0].tolist()} == {0, 1, NONE}
    assert {*draw(rest, 9)[0].tolist()} == {0, 1, 2, NONE}


def test_without_alpha_a_title_that_training_never_clicked_is_still_not_drawn():
    assert {*draw(pool({"a": 5}, alpha=0.0, held_out={"c": 50}), 9)[0].tolist()} == {0, NONE}


def test_draws_from_a_sampled_pool_keep_their_proportions():
    # 5 of 40 titles in the pool: over many pools, P(drawn) stays clicks / sum(clicks), which a
    # pool drawn by clicks and then drawn from by clicks again would square.
    clicks = {f"t{n:02d}": 1 + n for n in range(40)}
    trials = 6000
    found: Counter[int] = Counter()
    for seed in range(trials):
        found.update(draw(pool(clicks, 1.0, size=5, seed=seed), 1, seed=seed)[:, 0].tolist())
    share = sum(found[n] for n in range(20, 40)) / trials
    expected = sum(range(21, 41)) / sum(range(1, 41))  # 610 / 820 = 0.744
    # The self-normalised estimate from five titles is slightly biased towards equal weights.
    assert abs(share - expected) < 0.035


def test_a_pool_does_not_depend_on_the_order_or_the_buckets_it_came_in():
    found = entries({f"t{n}": 1 + n % 7 for n in range(50)}, 0.75, seed=3)
    halves = pl.concat([smallest(found[25:], 10), smallest(found[:25], 10)])
    whole, merged = (
        NegativePool(smallest(one, 10), 10, 0.75, training=True) for one in (found, halves)
    )
    assert (draw(whole, 4, 50) == draw(merged, 4, 50)).all()


def test_random_numbers_depend_on_the_seed_and_the_purpose():
    numbers = np.arange(40, dtype=np.uint64)
    found = [random(numbers, seed, purpose) for seed in (0, 1, -1) for purpose in range(3)]
    assert len(np.unique(found)) == 9 * 40


def test_an_empty_pool_gives_no_negatives():
    assert draw(pool({}), 4).tolist() == [[NONE] * 4]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30)), unique=True), st.integers(0, 5))
def test_shown_titles_come_first_in_an_order_of_chance(shown, number):
    rows, query = np.full((6, number), NONE), np.arange(6) % 3
    frame = pl.DataFrame(shown, schema={"q": pl.Int64, "number": pl.Int64}, orient="row")
    add_shown(rows, query, keys(6), frame)
    for row, q in zip(rows, query.tolist(), strict=True):
        of_query = {title for one, title in shown if one == q}
        found = row[row != NONE].tolist()
        assert len(found) == min(number, len(of_query))
        assert set(found) <= of_query
        assert len(set(found)) == len(found)
