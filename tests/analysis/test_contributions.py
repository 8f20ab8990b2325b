"""Shapley values and losses: games solved by hand, and their laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dssm_tf.analysis.contributions import (
    MOST_WORDS,
    losses,
    sampled_shapley,
    shapley,
    without_each,
    word_contributions,
)

games = st.integers(1, 5).flatmap(
    lambda players: arrays(np.float64, (2,) * players, elements=st.floats(-3, 3))
)


def test_the_glove_game_is_shared_as_shapley_says():
    # One left glove and two right ones, a pair is worth 1: 2/3 to the left one, 1/6 to the others.
    worth = np.zeros((2, 2, 2))
    worth[1, 1, 0] = worth[1, 0, 1] = worth[1, 1, 1] = 1
    assert shapley(worth) == pytest.approx([2 / 3, 1 / 6, 1 / 6])


@given(games)
def test_what_the_players_add_sums_to_what_all_are_worth_less_nobody(worth):
    assert shapley(worth).sum() == pytest.approx(worth.flat[-1] - worth.flat[0], abs=1e-9)


@given(games)
def test_players_who_change_places_change_their_values(worth):
    assert shapley(worth.T) == pytest.approx(shapley(worth)[::-1], abs=1e-9)


@given(arrays(np.float64, 4, elements=st.floats(-3, 3)))
def test_who_adds_the_same_to_every_coalition_is_given_that(own):
    worth = sum(np.arange(2).reshape((-1,) + (1,) * (3 - i)) * own[i] for i in range(4))
    assert shapley(worth) == pytest.approx(own, abs=1e-9)


WORTH = {word: place for place, word in enumerate("abcdefghijkl")}


def joint(texts):
    """Each word its number, and 7 more if both `a` and `l` are there."""
    sets = [text.split() for text in texts]
    assert all(words == sorted(words) for words in sets)  # in the order of the text
    return np.array([sum(map(WORTH.get, s)) + 7 * ("a" in s and "l" in s) for s in sets], float)


def test_up_to_ten_words_values_are_exact_and_beyond_they_are_sampled():
    words = list(WORTH)
    found, errors = word_contributions(joint, words[-MOST_WORDS:])
    assert found == pytest.approx(np.arange(2, 12))
    assert errors is None
    found, errors = word_contributions(joint, words)
    # Half of what a and l are worth together goes to each; an order and its reverse show it.
    assert found == pytest.approx(np.arange(12) + np.array([3.5, *[0] * 10, 3.5]))
    assert errors == pytest.approx(0, abs=1e-12)


def test_the_standard_error_is_that_of_a_mean_over_pairs_of_orders():
    # Two of three words are worth 1: in an order, and in its reverse, it goes to the middle word.
    # So a pair gives a word 1 or 0, and the standard error of n such pairs is that of a share p,
    # sqrt(p (1 - p) / (n - 1)).
    pairs = 100
    found, errors = sampled_shapley(
        lambda texts: np.array([len(text.split()) >= 2 for text in texts], float),
        ["a", "b", "c"],
        texts=2 * 3 * pairs,
    )
    assert found.sum() == pytest.approx(1)
    assert found == pytest.approx(1 / 3, abs=0.15)
    assert errors == pytest.approx(np.sqrt(found * (1 - found) / (pairs - 1)))


VECTORS = {"ice": [3.0, 0.0], "cream": [0.0, 2.0], "cone": [1.0, 1.0], "hot": [-2.0, 0.0]}


def bag(texts):
    """A model whose vectors are sums of its words' vectors, of any length."""
    return np.array([sum(np.array(VECTORS[word]) for word in text.split()) for text in texts])


def test_in_a_bag_of_words_a_pair_is_worth_the_product_of_its_words():
    query, title = ["ice", "cream"], ["cream", "hot", "cone"]
    queries, titles = (bag([" ".join(text), *without_each(text)]) for text in (query, title))
    lost_query, lost_title, pairs = losses(queries @ titles.T)
    # The title's vector is (-1, 3), the query's (3, 2).
    assert lost_query == pytest.approx([-3, 6])
    assert lost_title == pytest.approx([4, -6, 5])
    assert pairs == pytest.approx(np.array([[0, -6, 3], [4, 0, 2]]))
