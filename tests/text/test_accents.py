"""Texts match with and without accents; marks that distinguish words stay."""

from __future__ import annotations

import unicodedata

import pytest

from dssm_tf.text.characters import character_map
from dssm_tf.text.rules import FOLDED, TextRules
from tests.reference.character_rules import fold, is_mark

WITH_ACCENTS = TextRules(keep_accents=True)


@pytest.mark.parametrize(
    ("typed", "logged"),
    [
        ("leixoes", "Leixões"),
        ("lodz", "ŁÓDŹ"),
        ("smorrebrod", "smørrebrød"),
        ("strasse", "Straße"),
        ("STRASSE", "STRAẞE"),
        ("aesir thor edda", "Æsir Þór Eðða"),
        ("dakovo", "Đakovo"),
        ("istanbul", "İstanbul"),
        ("isparta", "ısparta"),
        ("ha noi pho", "Hà Nội phở"),
        ("αθηνα", "Αθήνα"),
        ("ανηρ", "ἀνήρ"),
        ("елка", "Ёлка"),
        ("киів", "Київ"),
        ("שלום", "שָׁלוֹם"),
        ("محمد", "مُحَمَّد"),
        ("cafe", "cafe\u0301"),
    ],
)
def test_a_word_equals_the_word_without_accents(typed, logged):
    assert FOLDED.key(typed) == FOLDED.key(logged)


@pytest.mark.parametrize(
    "text",
    [
        "हिन्दी",  # vowel signs and virama
        "ภาษาไทย กิน",
        "がぎ ば ぱ",  # voiced kana
        "한국어",
        "தமிழ்",
        "آ أ إ",  # alef with madda and hamza
        "ကမ္ဘာ",
    ],
)
def test_marks_that_distinguish_words_stay(text):
    assert FOLDED.chunks(text) == text.split()
    assert FOLDED.words(text) == WITH_ACCENTS.words(text)


def test_composed_and_decomposed_letters_are_equal():
    for code in folding():
        letter = chr(code)
        assert FOLDED.key(unicodedata.normalize("NFD", letter)) == FOLDED.key(letter), hex(code)


def folding() -> list[int]:
    """The code points that folding changes."""
    without_accents, with_accents = character_map(False), character_map(True)
    return [code for code, to in without_accents.items() if with_accents.get(code, code) != to]


def test_only_letters_with_accents_and_marks_are_changed():
    with_accents = character_map(True)
    for code in folding():
        lower = with_accents.get(code, code)
        assert is_mark(lower) or fold(chr(lower)) != chr(lower), hex(code)
