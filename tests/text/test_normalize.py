"""Text to words in pure Python."""

from __future__ import annotations

import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.text import character_rules
from dssm_tf.text.normalize import decode, normalize, words
from tests.reference import character_rules as derived
from tests.reference.unicode_strategies import AXES, texts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("  \t\n ", []),
        ("!?#", []),
        ("Cat", ["cat"]),
        ("The Wizard-of-Oz, 1939!", ["the", "wizard", "of", "oz", "1939"]),
        ("don't", ["don", "t"]),
        ("3.5mm", ["3", "5mm"]),
        ("C++ and C#", ["c", "and", "c"]),
        ("snake_case", ["snake", "case"]),
        ("running runs", ["running", "runs"]),  # no stemming
        ("naïve café", ["naive", "cafe"]),
        ("İSTANBUL", ["istanbul"]),  # dotted I becomes a plain i, without a combining dot
        ("ısı", ["isi"]),
        ("ΟΔΟΣ οδος", ["οδοσ", "οδοσ"]),  # the final sigma does not depend on its place
        ("STRASSE straße ẞ", ["strasse", "strasse", "ss"]),
        ("soft\u00adhyphen", ["softhyphen"]),
        ("zero\u200bwidth space", ["zero", "width", "space"]),
        ("no\u00a0break\u3000wide\u2028line", ["no", "break", "wide", "line"]),
        ("nul\0byte", ["nul", "byte"]),
        ("bad\ud800pair", ["bad", "pair"]),
        ("שלום\u200f עולם", ["שלום", "עולם"]),
        ("漢字、かな", ["漢字", "かな"]),
        ("ＡＢＣ１", ["ａｂｃ１"]),  # wide letters stay wide
        ("I ❤\ufe0f NY 👍🏽", ["i", "ny", "👍🏽"]),  # the heart is a symbol, the thumb a letter
        ("👩\u200d💻", ["👩💻"]),
        ("x² ½ №5", ["x²", "½", "5"]),
        ("Ⅷ", ["ⅷ"]),
        ("A" * 10_000, ["a" * 10_000]),
    ],
)
def test_a_text_becomes_its_words(text, expected):
    assert words(text) == expected
    assert normalize(text) == " ".join(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("naïve café", ["naïve", "café"]),
        ("cafe\u0301", ["cafe\u0301"]),  # no composition: five characters
        ("İSTANBUL ısı", ["istanbul", "ısı"]),
        ("STRASSE straße ẞ", ["strasse", "straße", "ß"]),
        ("Plain CAT", ["plain", "cat"]),
    ],
)
def test_accents_are_kept_where_that_is_asked_for(text, expected):
    assert words(text, keep_accents=True) == expected
    assert normalize(text, keep_accents=True) == " ".join(expected)


def test_bytes_that_are_not_utf8_separate_words():
    assert words(decode(b"caf\xe9 noir")) == ["caf", "noir"]
    assert words(decode(b"caf\xc3\xa9")) == ["cafe"]


@given(texts, st.booleans())
def test_normalising_twice_changes_nothing(text, keep):
    assert normalize(normalize(text, keep), keep) == normalize(text, keep)


@given(texts, st.booleans())
def test_words_hold_no_separator_and_are_never_empty(text, keep):
    target = character_rules.character_map(keep)
    for word in words(text, keep):
        assert word
        assert not any(ord(letter) in target for letter in word)


@given(first=texts, second=texts)
def test_words_of_joined_texts_are_the_words_of_each(first, second):
    assert words(f"{first} {second}") == words(first) + words(second)


@given(st.sampled_from(sorted(AXES)).flatmap(AXES.__getitem__))
def test_case_does_not_matter_where_unicode_maps_one_letter_to_one(text):
    kept = "".join(c for c in text if len(c.upper()) == 1 and c.upper().lower() == c.lower() != "ς")
    assert words(kept.upper()) == words(kept)


@pytest.mark.parametrize("keep", [False, True])
def test_the_character_map_never_maps_twice(keep):
    target = character_rules.character_map(keep)
    assert set(target) < set(range(sys.maxunicode + 1))
    for found in target.values():
        codes = map(ord, found) if isinstance(found, str) else [found]
        assert not {code for code in codes if code != character_rules.SPACE} & set(target)


def test_the_frozen_tables_are_what_the_rules_give():
    if unicodedata.unidata_version != derived.UNICODE_VERSION:
        pytest.skip(
            f"this Python has Unicode {unicodedata.unidata_version}; the tables are of "
            f"{derived.UNICODE_VERSION}"
        )
    assert tuple(derived.ranges(derived.is_deleted)) == character_rules.DELETED
    assert tuple(derived.ranges(derived.is_separator)) == character_rules.SEPARATORS
    assert tuple(derived.lower_runs()) == character_rules.LOWER


def test_text_handling_imports_neither_tensorflow_nor_keras_nor_numpy():
    code = (
        "import sys\n"
        "import dssm_tf.text.fingerprint, dssm_tf.text.letter_ngrams, dssm_tf.text.normalize\n"
        "import dssm_tf.text.vocabulary\n"
        "heavy = {'tensorflow', 'keras', 'numpy'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
