"""Shapley values and leave-one-out losses: games solved by hand, and Shapley's axioms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dssm_tf.analysis.contributions import (
    MAX_EXACT_WORDS,
    leave_one_out_losses,
    sampled_shapley,
    shapley,
    without_each,
    word_contributions,
)

games = st.integers(1, 5).flatmap(
    lambda players: arrays(np.float64, (2,) * players, elements=st.floats(-3, 3))
)


def test_shapley_values_of_the_glove_game_equal_the_published_ones():
    # One left and two right gloves; a pair has value 1. The left one gets 2/3, each right one 1/6.
    values = np.zeros((2, 2, 2))
    values[1, 1, 0] = values[1, 0, 1] = values[1, 1, 1] = 1
    assert shapley(values) == pytest.approx([2 / 3, 1 / 6, 1 / 6])


@given(games)
def test_shapley_values_sum_to_the_full_coalition_minus_the_empty_one(values):
    assert shapley(values).sum() == pytest.approx(values.flat[-1] - values.flat[0], abs=1e-9)


@given(games)
def test_exchanging_players_exchanges_their_values(values):
    assert shapley(values.T) == pytest.approx(shapley(values)[::-1], abs=1e-9)


@given(arrays(np.float64, 4, elements=st.floats(-3, 3)))
def test_a_player_with_a_constant_marginal_contribution_gets_that_value(constants):
    values = sum(np.arange(2).reshape((-1,) + (1,) * (3 - i)) * constants[i] for i in range(4))
    assert shapley(values) == pytest.approx(constants, abs=1e-9)


WORD_VALUES = {word: index for index, word in enumerate("abcdefghijkl")}


def values_with_bonus(texts):
    """The sum of a text's `WORD_VALUES`, plus 7 if it has both `a` and `l`."""
    word_lists = [text.split() for text in texts]
    assert all(words == sorted(words) for words in word_lists)  # the order of the text is kept
    bonuses = [7 * ("a" in words and "l" in words) for words in word_lists]
    sums = [sum(map(WORD_VALUES.get, words)) for words in word_lists]
    return np.add(sums, bonuses, dtype=float)


def test_values_are_exact_up_to_ten_words_and_sampled_beyond():
    words = list(WORD_VALUES)
    values, errors = word_contributions(values_with_bonus, words[-MAX_EXACT_WORDS:])
    assert values == pytest.approx(np.arange(2, 12))
    assert errors is None
    values, errors = word_contributions(values_with_bonus, words)
    # a and l get half of the bonus each. Every pair of an order and its reverse gives these values.
    assert values == pytest.approx(np.arange(12) + np.array([3.5, *[0] * 10, 3.5]))
    assert errors == pytest.approx(0, abs=1e-12)


def test_the_standard_error_is_that_of_a_mean_over_pairs_of_orders():
    # A text with at least two of the three words has value 1. In an order and in its reverse, the
    # middle word contributes 1 and the others 0. So each pair of orders gives a word 1 or 0. The
    # standard error of the mean of n pairs is that of a proportion p, sqrt(p (1 - p) / (n - 1)).
    pairs = 100
    values, errors = sampled_shapley(
        lambda texts: np.array([len(text.split()) >= 2 for text in texts], float),
        ["a", "b", "c"],
        texts=2 * 3 * pairs,
    )
    assert values.sum() == pytest.approx(1)
    assert values == pytest.approx(1 / 3, abs=0.15)
    assert errors == pytest.approx(np.sqrt(values * (1 - values) / (pairs - 1)))


VECTORS = {"ice": [3.0, 0.0], "cream": [0.0, 2.0], "cone": [1.0, 1.0], "hot": [-2.0, 0.0]}


def bag_of_words(texts):
    """A model whose text vector is the sum of the word vectors, not normalized."""
    return np.array([sum(np.array(VECTORS[word]) for word in text.split()) for text in texts])


def test_in_a_bag_of_words_an_interaction_is_the_product_of_two_word_vectors():
    query, title = ["ice", "cream"], ["cream", "hot", "cone"]
    queries, titles = (
        bag_of_words([" ".join(text), *without_each(text)]) for text in (query, title)
    )
    query_losses, title_losses, interactions = leave_one_out_losses(queries @ titles.T)
    # The title's vector is (-1, 3), the query's (3, 2).
    assert query_losses == pytest.approx([-3, 6])
    assert title_losses == pytest.approx([4, -6, 5])
    assert interactions == pytest.approx(np.array([[0, -6, 3], [4, 0, 2]]))
