"""Splitting texts into words in pure Python."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.text import characters
from dssm_tf.text.rules import FOLDED, TextRules
from tests.reference import character_rules as derived
from tests.reference.unicode_strategies import texts

WITH_ACCENTS = TextRules(keep_accents=True)
RULE = st.sampled_from([FOLDED, WITH_ACCENTS])


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
        ("ΟΔΟΣ οδος", ["οδοσ", "οδοσ"]),  # final sigma as any sigma
        ("STRASSE straße ẞ", ["strasse", "strasse", "ss"]),
        ("soft\u00adhyphen", ["softhyphen"]),
        ("zero\u200bwidth space", ["zero", "width", "space"]),
        ("no\u00a0break\u3000wide\u2028line", ["no", "break", "wide", "line"]),
        ("nul\0byte", ["nul", "byte"]),
        ("bad\ud800pair", ["bad", "pair"]),
        ("שלום\u200f עולם", ["שלום", "עולם"]),
        ("漢字、かな", ["漢字", "かな"]),
        ("ＡＢＣ１", ["abc1"]),
        ("ｶﾞｯｺｳ ﾊﾟﾝ", ["ガッ", "ッコ", "コウ", "パン"]),
        ("か\u3099っこう ハ\u309aン ａ\u3099", ["がっ", "っこ", "こう", "パン", "a", "\u3099"]),
        ("ゔ ウ\u3099 か\u309a", ["ゔ", "ヴ", "か\u309a"]),
        ("\u1112\u1161\u11ab\u1100\u116e\u11a8 \u1100\u1161", ["한국", "가"]),
        ("하\u11ab 한\u11ab \u1112\u1112\u1161", ["한", "한\u11ab", "\u1112하"]),
        ("ｶ\u200dﾞ", ["ガ"]),  # a joiner is deleted first
        ("ㅋㅋ ﾡ", ["ㅋㅋ", "ㄱ"]),
        ("I ❤\ufe0f NY 👍🏽", ["i", "ny", "👍🏽"]),  # the heart is a symbol, the thumb a letter
        ("👩\u200d💻", ["👩💻"]),
        ("x² ½ №5", ["x²", "½", "5"]),
        ("Ⅷ", ["ⅷ"]),
        ("A" * 10_000, ["a" * 10_000]),
    ],
)
def test_a_text_becomes_its_words(text, expected):
    assert FOLDED.words(text) == expected
    assert FOLDED.key(text) == " ".join(expected)


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
def test_accents_stay_with_the_rule_keep_accents(text, expected):
    assert WITH_ACCENTS.words(text) == expected
    assert WITH_ACCENTS.key(text) == " ".join(expected)


@pytest.mark.parametrize("rules", [FOLDED, WITH_ACCENTS])
def test_every_voiced_kana_and_every_syllable_equals_its_parts(rules):
    codes = [*range(0x3040, 0x3100), *range(0xAC00, 0xD7A4)]
    composed = "".join(chr(code) for code in codes if chr(code).isalnum())
    assert rules.key(unicodedata.normalize("NFD", composed)) == rules.key(composed)
    narrow = [chr(code) for code in range(0xFF66, 0xFF9E)]
    for text in [*narrow, *(f"{kana}{mark}" for kana in narrow for mark in "ﾞﾟ")]:
        assert rules.key(text) == rules.key(unicodedata.normalize("NFKC", text))


@given(texts, RULE)
def test_normalization_is_idempotent(text, rules):
    assert rules.key(rules.key(text)) == rules.key(text)


@pytest.mark.parametrize("keep", [False, True])
def test_the_character_map_never_maps_twice(keep):
    target = characters.character_map(keep)
    assert set(target) < set(range(sys.maxunicode + 1))
    for value in target.values():
        codes = map(ord, value) if isinstance(value, str) else [value]
        assert not {code for code in codes if code != characters.SPACE} & set(target)


@pytest.mark.slow
def test_the_frozen_table_equals_the_generated_table():
    if unicodedata.unidata_version != derived.UNICODE_VERSION:
        pytest.skip(
            f"this Python has Unicode {unicodedata.unidata_version}; the table is of "
            f"{derived.UNICODE_VERSION}"
        )
    assert characters.TABLE.read_text("utf-8") == derived.table()
