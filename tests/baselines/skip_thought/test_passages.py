"""Contiguous text as sentences with neighbours."""

import numpy as np
import pytest

from dssm_tf.baselines.skip_thought.passages import (
    Passages,
    passages_of_cells,
    passages_of_lines,
    sentences,
)
from dssm_tf.common.errors import UserError


@pytest.mark.parametrize(
    ("paragraph", "expected"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("It cost 3.5 dollars, e.g. here.", ["It cost 3.5 dollars, e.g. here."]),
        ('He said "No." She left.', ['He said "No.', "She left."]),
        ("In 1999. 2000 came.", ["In 1999.", "2000 came."]),
        ("  ", []),
        ("one . two ! three", ["one .", "two !", "three"]),
        ("seen by fig. 3 . next , etc . last .", ["seen by fig. 3 .", "next , etc .", "last ."]),
        ("Ask Yahoo ! today. It is late. Good.", ["Ask Yahoo ! today.", "It is late.", "Good."]),
    ],
)
def test_sentences_end_before_a_capital_or_a_digit(paragraph, expected):
    assert sentences(paragraph) == expected


def test_running_text_goes_on_until_a_blank_line():
    lines = ["A cat. A dog.", "A cow.", "", " ", "Rain."]
    assert list(passages_of_lines(lines)) == [["A cat.", "A dog.", "A cow."], ["Rain."]]


def test_each_cell_of_a_table_is_a_passage():
    cells = ["A cat. A dog.", "", "A cow."]
    assert list(passages_of_cells(cells)) == [["A cat.", "A dog."], ["A cow."]]


TEXT = [["b a a", "?!", "a c"], ["alone"], ["a", "b", "d d d d"]]


def test_words_are_numbered_by_frequency_after_the_two_marks():
    # a 4 (b a a, a c, a), d 4, b 2, alone 1, c 1; equal counts by the alphabet
    text = Passages.of(TEXT, 10, 30)
    assert text.dictionary == ("<eos>", "UNK", "a", "d", "b", "alone", "c")
    assert Passages.of(TEXT, 2, 30).dictionary == ("<eos>", "UNK", "a", "d")


def test_neighbours_are_of_the_same_passage_and_sentences_without_words_are_none():
    text = Passages.of(TEXT, 10, 30)
    rows = np.arange(len(text))
    # sentences: 0 "b a a", 1 "a c" | 2 "a", 3 "b", 4 "d d d d"; "alone" has no neighbour
    assert text.neighbour(rows, -1).tolist() == [-1, 0, -1, 2, 3]
    assert text.neighbour(rows, 1).tolist() == [1, -1, 3, 4, -1]


def test_rows_are_padded_and_end_with_the_mark_where_asked():
    text = Passages.of(TEXT, 3, 3)  # knows a, d, b; reads three words
    rows = np.array([0, 1, -1, 4])
    # a = 3, d = 4, b = 5, c is not known = 2
    assert text.matrix(rows, 4, end=True).tolist() == [
        [5, 3, 3, 1],
        [3, 2, 1, 0],
        [0, 0, 0, 0],
        [4, 4, 4, 1],
    ]
    assert text.matrix(rows[:2], 3, end=False).tolist() == [[5, 3, 3], [3, 2, 0]]


@pytest.mark.parametrize("passages", [[], [["one"], ["two"]], [["?", "!"]]])
def test_text_without_neighbours_is_refused(passages):
    with pytest.raises(UserError, match="no two sentences that follow each other"):
        Passages.of(passages, 10, 30)
