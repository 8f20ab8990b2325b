"""Negatives: distinct, never clicked, in proportion to clicks ** alpha, reproducible."""

from __future__ import annotations

from collections import Counter
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.negatives import NegativePool, pair_stream, pool_entries, smallest


def totals(clicks: dict[str, int], held_out: dict[str, int] | None = None):
    """(title, ((text, training clicks, queries), all clicks)), held-out clicks on top."""
    held_out = held_out or {}
    names = sorted({*clicks, *held_out})
    return [
        (one, ((one, clicks.get(one, 0), 1), clicks.get(one, 0) + held_out.get(one, 0)))
        for one in names
    ]


def pool(clicks, alpha=1.0, size=1000, seed=0, held_out=None) -> NegativePool:
    entries = smallest(pool_entries(totals(clicks, held_out), alpha, seed), size)
    return NegativePool(entries, size, alpha)


def draw(one: NegativePool, number, excluded=(), query="q", training=True):
    found = one.draw(number, excluded, pair_stream(0, query, "t"), training=training)
    return [text for text, _, _ in found]


@given(
    clicks=st.dictionaries(st.sampled_from("abcdefghij"), st.integers(1, 1000), min_size=1),
    excluded=st.sets(st.sampled_from("abcdefghij")),
    number=st.integers(0, 12),
    alpha=st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    query=st.text(max_size=5),
)
def test_negatives_are_distinct_never_excluded_and_as_many_as_there_are(
    clicks, excluded, number, alpha, query
):
    found = draw(pool(clicks, alpha), number, excluded, query)
    assert len(set(found)) == len(found) == min(number, len(set(clicks) - excluded))
    assert not set(found) & excluded


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_titles_are_drawn_in_proportion_to_clicks_to_the_alpha(alpha):
    clicks = {"a": 1, "b": 4, "c": 16, "d": 64}
    one = pool(clicks, alpha)
    trials = 8000
    found = Counter(draw(one, 1, query=str(n))[0] for n in range(trials))
    weights = np.array([clicks[title] ** alpha for title in "abcd"])
    expected = weights / weights.sum()
    error = np.sqrt(expected * (1 - expected) / trials)
    observed = np.array([found[title] for title in "abcd"]) / trials
    assert np.all(np.abs(observed - expected) < 4.5 * error)


def test_the_second_draw_is_in_proportion_among_what_is_left():
    # P(b second | a first) = 2 / (2 + 5), and so on: successive sampling.
    clicks = {"a": 3, "b": 2, "c": 5}
    one = pool(clicks)
    trials = 8000
    found = Counter(tuple(draw(one, 2, query=str(n))) for n in range(trials))
    expected = 3 / 10 * 2 / 7
    assert abs(found["a", "b"] / trials - expected) < 4.5 * np.sqrt(expected / trials)


def test_looking_at_every_title_draws_as_rejection_does():
    # 400 titles clicked for the query hold nearly all weight, so that rejection gives up.
    clicks = {f"x{n}": 10_000 for n in range(400)} | {"a": 1, "b": 3}
    excluded = {f"x{n}" for n in range(400)}
    one = pool(clicks)
    trials = 1500
    found = Counter(draw(one, 1, excluded, str(n))[0] for n in range(trials))
    assert set(found) == {"a", "b"}
    assert abs(found["a"] / trials - 0.25) < 4.5 * np.sqrt(0.25 * 0.75 / trials)


def test_training_records_draw_titles_of_the_training_part_alone():
    one = pool({"a": 5, "b": 5}, held_out={"c": 50, "a": 1})
    assert set(draw(one, 9)) == {"a", "b"}
    assert set(draw(one, 9, training=False)) == {"a", "b", "c"}


def test_without_alpha_a_title_that_training_never_clicked_is_still_not_drawn():
    assert set(draw(pool({"a": 5}, alpha=0.0, held_out={"c": 50}), 9)) == {"a"}


def test_draws_from_a_sampled_pool_keep_their_proportions():
    # 5 of 40 titles in the pool: over many pools, P(drawn) stays clicks / sum(clicks), which a
    # pool drawn by clicks and then drawn from by clicks again would square.
    clicks = {f"t{n:02d}": 1 + n for n in range(40)}
    trials = 6000
    found: Counter[str] = Counter()
    for seed in range(trials):
        found.update(draw(pool(clicks, 1.0, size=5, seed=seed), 1, query=str(seed)))
    share = sum(found[f"t{n:02d}"] for n in range(20, 40)) / trials
    expected = sum(range(21, 41)) / sum(range(1, 41))  # 610 / 820 = 0.744
    # The self-normalised estimate from five titles is slightly biased towards equal weights.
    assert abs(share - expected) < 0.035


def test_a_pool_does_not_depend_on_the_order_or_the_buckets_it_came_in():
    clicks = {f"t{n}": 1 + n % 7 for n in range(50)}
    entries = list(pool_entries(totals(clicks), 0.75, 3))
    halves = smallest(entries[25:], 10) + smallest(entries[:25], 10)
    whole = NegativePool(smallest(entries, 10), 10, 0.75)
    merged = NegativePool(smallest(halves, 10), 10, 0.75)
    assert [draw(whole, 4, query=str(n)) for n in range(50)] == [
        draw(merged, 4, query=str(n)) for n in range(50)
    ]


def test_random_numbers_depend_on_seed_query_and_title_and_do_not_repeat():
    def first(*arguments):
        return [number for number, _ in zip(pair_stream(*arguments), range(40), strict=False)]

    streams = [first(0, "a", "b"), first(1, "a", "b"), first(0, "ab", ""), first(0, "b", "a")]
    assert len({number for one in streams for number in one}) == 160
    assert first(0, "a", "b") == streams[0]


def test_an_empty_pool_gives_no_negatives():
    assert NegativePool([], 10, 0.75).draw(4, (), count(), training=True) == []
