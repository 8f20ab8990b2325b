"""Accents fold: a text is found with or without them, and no other word is lost."""

from __future__ import annotations

import unicodedata

import pytest

from dssm_tf.text.characters import character_map
from dssm_tf.text.rules import FOLDED, Rules
from tests.reference.character_rules import fold, is_mark

KEPT = Rules(keep_accents=True)


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
def test_a_word_is_found_without_its_accents(typed, logged):
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
def test_marks_without_which_it_were_another_word_stay(text):
    assert FOLDED.words(text) == text.split()
    assert FOLDED.words(text) == KEPT.words(text)


def test_a_letter_composed_and_taken_apart_are_the_same():
    for code in folding():
        letter = chr(code)
        assert FOLDED.key(unicodedata.normalize("NFD", letter)) == FOLDED.key(letter), hex(code)


def folding() -> list[int]:
    """The code points that folding changes."""
    folds, keeps = character_map(False), character_map(True)
    return [code for code, to in folds.items() if keeps.get(code, code) != to]


def test_only_letters_with_accents_and_marks_are_changed():
    keeps = character_map(True)
    for code in folding():
        lower = keeps.get(code, code)
        assert is_mark(lower) or fold(chr(lower)) != chr(lower), hex(code)
