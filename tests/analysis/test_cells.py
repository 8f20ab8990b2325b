"""Active cells and keywords, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from dssm_tf.analysis.cells import Reading, keywords, most_active, shared_cells

# Four words, read from the left, and what three cells say after each.
Y = np.array([[0.1, 0.0, 0.5], [0.1, -0.6, 0.5], [0.8, -0.6, 0.4], [0.8, -0.8, 0.4]])
WORDS = ["the", "wizard", "of", "oz"]


def test_the_most_active_cells_say_most_whatever_the_sign():
    assert most_active(Y[-1], 2).tolist() == [0, 1]  # equal, by their number
    assert most_active(np.array([0.1, -0.9, 0.3]), 2).tolist() == [1, 2]


def test_a_word_moves_a_cell_by_more_than_half_of_what_it_says_in_the_end():
    # wizard moves cell 1 by .6 > .4, of moves cell 0 by .7 > .4, oz none by as much.
    assert Reading(WORDS, False, {"y": Y}).moved() == [None, 1, 1, 0]
    assert Reading(WORDS, False, {"y": Y}).moved(number=1) == [None, 0, 1, 0]


def test_a_reading_from_the_right_begins_with_the_last_word():
    backwards = Reading(WORDS[::-1], True, {"y": Y[::-1]})
    assert backwards.moved() == [0, 1, 1, None]


def test_a_keyword_moves_more_than_40_percent_of_the_cells_in_both_directions():
    # Of three active cells more than 1.2: two at least.
    left = np.array([[0.4, 0.4, 0.0], [0.4, 0.4, 0.0], [1.0, 1.0, 0.1]])  # word 2 moves three
    right = np.array([[1.0, 1.0, 1.0], [0.0, 0.0, 0.9], [0.0, 0.0, 0.9]])  # word 0 moves two
    readings = [Reading(["a", "b", "c"], False, {"y": left}),
                Reading(["a", "b", "c"], True, {"y": right})]  # fmt: skip
    assert readings[0].moved() == [None, 0, 3]
    assert readings[1].moved() == [2, 0, None]
    # a is read first from the left and moves two of three from the right; c the other way round.
    assert keywords(readings) == [True, False, True]
    one_moved = [readings[0], Reading(["a", "b", "c"], True, {"y": np.minimum(right, 0.95)})]
    one_moved[1].activations["y"][0, 1] = 0.0
    assert keywords(one_moved) == [False, False, True]


def test_a_text_of_one_word_has_its_keyword():
    assert keywords([Reading(["oz"], False, {"y": Y[:1]})]) == [True]


def test_shared_cells_are_the_parts_of_the_cosine():
    found = shared_cells(np.array([0.6, 0.8, 0.0]), np.array([0.0, 1.0, 0.0]), 2)
    assert found[0] == (1, pytest.approx(0.8))
