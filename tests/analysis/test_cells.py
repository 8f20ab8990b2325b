"""Active cells, keywords and topics, counted by hand."""

import numpy as np
import pytest

from dssm_tf.analysis.cells import (
    CellTopic,
    Reading,
    cell_keywords,
    keywords,
    most_active,
    topics,
)

# Outputs of three cells at four words, read from the left. Cell 2 starts highest and falls.
Y = np.array([[0.1, 0.0, 0.9], [0.1, -0.6, 0.9], [0.8, -0.6, 0.4], [0.8, -0.8, 0.4]])
WORDS = ["the", "wizard", "of", "oz"]


def reading(text, *cells, backwards=False):
    """A reading of a text: per cell, its output at each word, in the order of the text."""
    return Reading(text.split(), backwards, {"y": np.array(cells, float).T})


def test_the_most_active_cells_have_the_largest_absolute_output():
    assert most_active(Y[-1], 2).tolist() == [0, 1]  # equal cells by index
    assert most_active(np.array([0.1, -0.9, 0.3]), 2).tolist() == [1, 2]


def test_a_word_changes_a_cell_by_more_than_half_of_its_last_value():
    # "wizard" changes cell 1 by .6 > .4; "of" changes cell 0 by .7 > .4 and cell 2 by .5 > .2;
    # "oz" changes none.
    assert Reading(WORDS, False, {"y": Y}).changed_cell_counts() == [None, 1, 2, 0]
    # Only the two cells that are most active after the last word count; cell 2 is not one of them.
    assert Reading(WORDS, False, {"y": Y}).changed_cell_counts(count=2) == [None, 1, 1, 0]


def test_a_backwards_reading_starts_with_the_last_word():
    # The same outputs in the order of reading, so the same counts, in the order of the text.
    assert Reading(WORDS[::-1], True, {"y": Y[::-1]}).changed_cell_counts() == [0, 2, 1, None]


@pytest.mark.parametrize(
    ("left", "right", "is_keyword"),
    [(5, 5, True), (4, 5, False), (5, 4, False), (4, 4, False), (0, 10, False)],
)
def test_a_keyword_changes_more_than_40_percent_of_ten_cells_in_both_directions(
    left, right, is_keyword
):
    # Five of ten cells are more than 40 %, four are not (Palangi et al. 2016, sec. V-A2).
    def changing(count, backwards):
        cells = [[0.1, 0.9, 0.9]] * count + [[0.9, 0.9, 0.9]] * (10 - count)
        cells = np.array([*cells, [0.0, 0.1, 0.1]])  # the last is not among the ten
        return reading("a b c", *(cells[:, ::-1] if backwards else cells), backwards=backwards)

    readings = [changing(left, False), changing(right, True)]
    assert [direction.changed_cell_counts()[1] for direction in readings] == [left, right]
    assert keywords(readings)[1] is is_keyword


def test_the_first_word_of_a_direction_is_judged_by_the_other_direction():
    # From the left, c changes both cells; from the right, a changes one of two.
    left = reading("a b c", [0.4, 0.4, 1.0], [0.4, 0.4, 1.0])
    right = reading("a b c", [1.0, 0.0, 0.0], [0.9, 0.9, 0.9], backwards=True)
    assert keywords([left, right]) == [True, False, True]


def test_the_word_of_a_text_of_one_word_is_a_keyword():
    assert keywords([Reading(["oz"], False, {"y": Y[:1]})]) == [True]


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        # Cell 0 changes by .6 of .8 at pizza and by .1 at place. Cell 1 changes by .4: more than
        # half of its last value, .3, though not of its largest, .45. Cell 2 changes most, but is
        # not active after the last word.
        ([reading("the pizza place", [0.1, 0.7, 0.8], [0.9, 0.5, 0.6], [0.0, -0.9, 0.1])],
         {0: ["pizza"], 1: ["pizza"]}),
        # The change of y counts, not y itself.
        ([reading("the pizza place", [0.1, 0.9, 0.9])], {0: ["pizza"]}),
        # All cells are zero before the first word, so it does not count
        # (Palangi et al. 2016, footnote 3).
        ([reading("pizza place", [0.9, 0.9])], {}),
        ([reading("best pizza", [0.9, 0.9], backwards=True)], {}),
        # Indices of the second direction follow the first's; words keep the order of the text.
        ([reading("corn hash corn now", [0, 0, 0, 0]),
          reading("corn hash corn now", [0.9, 0.4, 0.9, 0], backwards=True)],
         {1: ["corn", "hash"]}),
    ],
)  # fmt: skip
def test_keywords_of_a_cell_change_it_by_more_than_half_of_its_last_value(readings, expected):
    assert cell_keywords(readings, 2) == expected


def test_topics_count_texts_per_cell_and_keyword_most_frequent_first():
    weak = reading("a b", [0.0, 0.3], [0.0, 0.0])
    strong = reading("c d", [0.0, -0.8], [0.0, 0.0])
    middle = reading("e d", [0.0, 0.5], [0.0, 0.4])
    first, second = topics([[weak], [strong], [middle]], 2)
    assert first == CellTopic(cell=0, text_count=3, keywords=[("d", 2), ("b", 1)])
    assert second == CellTopic(cell=1, text_count=1, keywords=[("d", 1)])
    (topic,) = topics([[weak], [strong], [middle]], 1)  # only the most active cell of each text
    assert topic.text_count == 3
    assert len(topics([[reading("a b", *[[0.0, 0.3]] * 6)]])) == 5
