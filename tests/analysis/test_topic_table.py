"""Texts by cells, on readings made by hand."""

from __future__ import annotations

import numpy as np

from dssm_tf.analysis.cells import Reading
from dssm_tf.analysis.topic_table import topic_table


def read(text, y, backwards=False):
    return [Reading(text.split(), backwards, {"y": np.array(y)})]


# Cell 0 ends at .8, .6 and .2, cell 1 at -.6, 0 and .9.
PIZZA = read("the pizza place", [[0.1, 0.0], [0.7, -0.1], [0.8, -0.6]])
FOOD = read("all corn hash", [[0.0, 0.1], [0.3, 0.1], [0.61, 0.0]])
HEALTH = read("sinus infection", [[0.1, 0.1], [0.2, 0.9]])


def test_a_cell_s_words_change_it_by_more_than_half_of_what_it_says_in_the_end():
    found = topic_table([PIZZA, FOOD, HEALTH], cells=2, active=1)
    assert found.cells == [0, 1]  # in two texts, and in one
    assert found.texts[:2] == [["the", "pizza", "place"], ["all", "corn", "hash"]]
    # .6 of .8 at pizza; .31 of .61 at hash, .3 at corn is not enough; .8 of .9 at infection.
    assert found.keywords == [{0: ["pizza"]}, {0: ["hash"]}, {1: ["infection"]}]


def test_the_word_read_first_is_nobody_s():
    (only,) = topic_table([read("pizza now", [[0.9, 0.0], [0.9, 0.0]])]).keywords or [None]
    assert only is None  # no cell has a word, so the text is not shown


def test_a_reading_from_the_right_counts_on_and_keeps_the_order_of_the_text():
    backwards = Reading(["corn", "hash", "now"], True, {"y": np.array([[0.9], [0.4], [0.0]])})
    forwards = Reading(["corn", "hash", "now"], False, {"y": np.zeros((3, 1))})
    found = topic_table([[forwards, backwards]])
    assert found.cells == [1]  # the second direction's first cell
    assert found.keywords == [{1: ["corn"]}]  # .5 of .9; hash moves it by .4


def test_of_each_cell_the_texts_in_which_it_says_most_come_first():
    weak = read("a b", [[0.0, 0.0], [0.3, 0.0]])
    strong = read("c d", [[0.0, 0.0], [-0.8, 0.0]])
    middle = read("e f", [[0.0, 0.0], [0.5, 0.0]])
    found = topic_table([weak, strong, middle], cells=1, active=1)
    assert found.texts == [["c", "d"], ["e", "f"]]
