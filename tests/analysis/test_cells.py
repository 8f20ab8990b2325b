"""Active cells, keywords and topics, counted by hand."""

import numpy as np
import pytest

from dssm_tf.analysis.cells import (
    Reading,
    cell_keywords,
    keywords,
    most_active,
    topics,
)

# Four words, read from the left, and three cells after each. Cell 2 was the highest, and fell.
Y = np.array([[0.1, 0.0, 0.9], [0.1, -0.6, 0.9], [0.8, -0.6, 0.4], [0.8, -0.8, 0.4]])
WORDS = ["the", "wizard", "of", "oz"]


def read(text, *cells, backwards=False):
    """A reading, cells by words in the order of the text."""
    return Reading(text.split(), backwards, {"y": np.array(cells, float).T})


def test_the_most_active_cells_have_the_largest_y_whatever_the_sign():
    assert most_active(Y[-1], 2).tolist() == [0, 1]  # equal, by their number
    assert most_active(np.array([0.1, -0.9, 0.3]), 2).tolist() == [1, 2]


def test_a_word_moves_a_cell_by_more_than_half_of_its_last_value():
    # wizard moves cell 1 by .6 > .4; of moves cell 0 by .7 > .4 and cell 2 by .5 > .2; oz none.
    assert Reading(WORDS, False, {"y": Y}).moved() == [None, 1, 2, 0]
    # Of the two that are most active in the end; cell 2 was until wizard.
    assert Reading(WORDS, False, {"y": Y}).moved(number=2) == [None, 1, 1, 0]


def test_a_reading_from_the_right_begins_with_the_last_word():
    assert Reading(WORDS[::-1], True, {"y": Y[::-1]}).moved() == [0, 2, 1, None]


@pytest.mark.parametrize(
    ("left", "right", "key"),
    [(5, 5, True), (4, 5, False), (5, 4, False), (4, 4, False), (0, 10, False)],
)
def test_a_keyword_moves_more_than_40_percent_of_ten_cells_in_both_directions(left, right, key):
    # Five of ten cells are more than 40 %, four are not (P16, sec. V-A2).
    def moving(number, backwards):
        cells = [[0.1, 0.9, 0.9]] * number + [[0.9, 0.9, 0.9]] * (10 - number)
        cells = np.array([*cells, [0.0, 0.1, 0.1]])  # the last is not among the ten
        return read("a b c", *(cells[:, ::-1] if backwards else cells), backwards=backwards)

    readings = [moving(left, False), moving(right, True)]
    assert [one.moved()[1] for one in readings] == [left, right]
    assert keywords(readings)[1] is key


def test_the_word_that_a_direction_reads_first_is_judged_by_the_other():
    # c moves all of two cells from the left, a one of two from the right.
    left = read("a b c", [0.4, 0.4, 1.0], [0.4, 0.4, 1.0])
    right = read("a b c", [1.0, 0.0, 0.0], [0.9, 0.9, 0.9], backwards=True)
    assert keywords([left, right]) == [True, False, True]


def test_a_text_of_one_word_has_its_keyword():
    assert keywords([Reading(["oz"], False, {"y": Y[:1]})]) == [True]


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        # .6 of .8 at pizza, .1 at place. Half of the largest value, not of the last, would be .45:
        # a change of .4 is a keyword of cell 1. Cell 2 changed most and is not active at last.
        ([read("the pizza place", [0.1, 0.7, 0.8], [0.9, 0.5, 0.6], [0.0, -0.9, 0.1])],
         {0: ["pizza"], 1: ["pizza"]}),
        # The change of y counts and not its size.
        ([read("the pizza place", [0.1, 0.9, 0.9])], {0: ["pizza"]}),
        # Before the word read first all cells are zero: it would move each (P16, footnote 3).
        ([read("pizza place", [0.9, 0.9])], {}),
        ([read("best pizza", [0.9, 0.9], backwards=True)], {}),
        # Cells of the second direction count on; words keep the order of the text.
        ([read("corn hash corn now", [0, 0, 0, 0]),
          read("corn hash corn now", [0.9, 0.4, 0.9, 0], backwards=True)],
         {1: ["corn", "hash"]}),
    ],
)  # fmt: skip
def test_a_cell_s_keywords_change_it_by_more_than_half_of_its_last_value(readings, expected):
    assert cell_keywords(readings, 2) == expected


def test_a_topic_counts_texts_by_keyword_and_shows_those_in_which_its_cell_is_strongest():
    weak = read("a b", [0.0, 0.3], [0.0, 0.0])
    strong = read("c d", [0.0, -0.8], [0.0, 0.0])
    middle = read("e d", [0.0, 0.5], [0.0, 0.4])
    first, second = topics([[weak], [strong], [middle]], 2)
    assert first == (0, 3, [("d", 2), ("b", 1)])
    assert second == (1, 1, [("d", 1)])
    ((_, texts, _),) = topics([[weak], [strong], [middle]], 1)  # the most active cell alone
    assert texts == 3
    assert len(topics([[read("a b", *[[0.0, 0.3]] * 6)]])) == 5
