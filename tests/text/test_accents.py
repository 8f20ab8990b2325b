"""Accents fold: a text is found with or without them, and no other word is lost."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.text import accents
from dssm_tf.text.character_rules import character_map
from dssm_tf.text.normalize import normalize, words
from tests.reference import character_rules as derived


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
    assert normalize(typed) == normalize(logged)


@pytest.mark.parametrize(
    "text",
    [
        "हिन्दी",  # vowel signs and virama
        "ภาษาไทย กิน",
        "がぎ ば ぱ",  # voiced kana
        "한국어",
        "\u1112\u1161\u11ab",  # the jamo of one syllable
        "தமிழ்",
        "آ أ إ",  # alef with madda and hamza
        "ကမ္ဘာ",
    ],
)
def test_marks_without_which_it_were_another_word_stay(text):
    assert words(text) == text.split()
    assert words(text) == words(text, keep_accents=True)


def test_kept_accents_tell_words_apart():
    assert words("pâté ß Ø", keep_accents=True) == ["pâté", "ß", "ø"]
    assert words("pate", keep_accents=True) != words("pâté", keep_accents=True)


def test_a_letter_composed_and_taken_apart_are_the_same():
    fold = accents.folded()
    for code in [*fold, *(ord(chr(code).upper()) for code in fold if len(chr(code).upper()) == 1)]:
        letter = chr(code)
        assert normalize(unicodedata.normalize("NFD", letter)) == normalize(letter), hex(code)


@given(st.text(st.sampled_from("abcxyzäöüéèøßæłđñçÀÉŒ ")))
def test_folding_of_latin_letters_leaves_plain_ones(text):
    assert normalize(text).isascii()


def test_only_letters_with_accents_and_marks_are_changed():
    folded, kept = character_map(), character_map(keep_accents=True)
    codes = range(sys.maxunicode + 1)
    changed = {code for code in codes if folded.get(code, code) != kept.get(code, code)}
    lower = {code: kept.get(code, code) for code in changed}
    table = accents.folded()
    assert all(lower[code] in table for code in changed)
    assert all(folded[code] == (table[lower[code]] or None) for code in changed)
    assert set(table) - changed == set()


def test_the_frozen_tables_are_what_the_rules_give():
    if unicodedata.unidata_version != derived.UNICODE_VERSION:
        pytest.skip(
            f"this Python has Unicode {unicodedata.unidata_version}; the tables are of "
            f"{derived.UNICODE_VERSION}"
        )
    assert tuple(derived.ranges(derived.is_mark)) == accents.MARKS
    assert derived.folds() == accents.LETTERS
