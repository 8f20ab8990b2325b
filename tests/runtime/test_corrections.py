"""Corrections of query words that are not known: the rule, and the query with its corrections."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.runtime.corrections import MIN_SIMILARITY, KnownWord, correct_word, edit_distance
from tests.reference.edit_distance import distance


def corrected(word: str, *similar: tuple[str, float] | tuple[str, float, int]) -> str | None:
    """The correction of a word.

    Args:
        word: an unknown word.
        similar: known words with their similarity and, if it is not 1, the number of their titles.
    """
    known_words = [KnownWord(*known, *[1] * (3 - len(known))) for known in similar]
    correction = correct_word(word, known_words)
    return correction and correction.correction


@given(st.text("abc", max_size=6), st.text("abc", max_size=6))
def test_the_edit_distance_equals_the_recursive_definition(first, second):
    assert edit_distance(first, second) == distance(first, second)


@pytest.mark.parametrize(
    ("first", "second", "edits"),
    [("toliet", "toilet", 1), ("braket", "bracket", 1), ("dispencer", "dispenser", 1),
     ("kitchaid", "kitchenaid", 2), ("", "box", 3), ("box", "box", 0)],
)  # fmt: skip
def test_a_swap_of_neighbors_is_one_edit(first, second, edits):
    assert edit_distance(first, second) == edits


def test_a_word_of_similar_use_and_other_letters_is_not_a_correction():
    assert corrected("sneaker", ("shoe", 0.9)) is None
    assert corrected("hedphones", ("earbuds", 0.9), ("headphones", 0.6)) == "headphones"


def test_words_with_digits_and_short_words_are_not_corrected():
    assert corrected("gt540", ("gt545", 0.9)) is None
    assert corrected("kai", ("kia", 0.9)) is None
    assert corrected("boxx", ("box", 0.9)) is None
    assert corrected("sonyy", ("sony", 0.9)) == "sony"
    assert corrected("sonyx", ("sony4", 0.9)) is None


def test_two_edits_are_corrected_from_eight_letters():
    assert corrected("kitchid", ("kitchen", 0.9)) is None  # 7 letters
    assert corrected("kitchaid", ("kitchenaid", 0.9)) == "kitchenaid"


def test_fewer_edits_precede_a_higher_similarity():
    similar = [("refrigerators", 0.9), ("refrigerator", 0.8), ("refrigeratoe", 0.7)]
    assert corrected("refrigrator", *similar) == "refrigerator"


def test_a_similarity_below_the_threshold_is_not_a_correction():
    assert corrected("toliet", ("toilet", MIN_SIMILARITY)) == "toilet"
    assert corrected("toliet", ("toilet", MIN_SIMILARITY - 0.001)) is None


def test_a_plural_is_not_a_typing_error():
    assert corrected("compressors", ("compressor", 0.9)) is None
    assert corrected("street", ("streets", 0.9), ("streat", 0.8)) is None
    assert corrected("wireles", ("wireless", 0.9)) == "wireless"


def test_of_equal_edits_frequent_words_are_preferred():
    # 0.75 + 0.03 ln 2 = 0.771; 0.69 + 0.03 ln 40 = 0.801.
    similar = [("florescent", 0.75, 2), ("fluorescent", 0.69, 40)]
    assert corrected("flourescent", *similar) == "fluorescent"
    # 0.69 + 0.03 ln 8 = 0.752.
    assert corrected("flourescent", similar[0], ("fluorescent", 0.69, 8)) == "florescent"
