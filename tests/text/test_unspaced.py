"""Words of texts in scripts without spaces, in pure Python."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.baselines.terms import Terms
from dssm_tf.text.characters import character_map, compose, unspaced_characters
from dssm_tf.text.rules import FOLDED, TextRules
from dssm_tf.text.vocabulary import Vocabulary
from tests.reference import unspaced
from tests.reference.unicode_strategies import KINDS, raw_bytes, texts

WITH_ACCENTS = TextRules(keep_accents=True)
RULE = st.sampled_from([FOLDED, WITH_ACCENTS])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("東京都", ["東京", "京都"]),
        ("東京", ["東京"]),
        ("東", ["東"]),
        ("東京、京都", ["東京", "京都"]),
        ("天気予報のアプリ", ["天気", "気予", "予報", "報の", "のア", "アプ", "プリ"]),
        ("時々〆切", ["時々", "々〆", "〆切"]),
        ("𠮷野家", ["𠮷野", "野家"]),  # beyond the first 65,536 code points
        # Half-width kana become full-width ones, and a voicing mark joins its kana.
        ("ｶﾞｯｺｳ", ["ガッ", "ッコ", "コウ"]),
        ("か\u3099っこう", ["がっ", "っこ", "こう"]),
        ("コーヒー", ["コー", "ーヒ", "ヒー"]),
        ("漢\u3099字", ["漢\u3099字"]),  # a mark that cannot be composed stays with its letter
        # Latin letters and digits beside a run are words of their own.
        ("iPhone用ケース", ["iphone", "用ケ", "ケー", "ース"]),
        ("2020年12月", ["2020", "年", "12", "月"]),
        ("第１回ＡＢＣ展", ["第", "1", "回", "abc", "展"]),
        ("東\u200d京\ufe00都", ["東京", "京都"]),  # joiners and variation selectors are deleted
        # ro-khuean (rent a house): one letter with a vowel and a tone mark above it.
        ("เช่าบ้าน", ["เช่", "ช่า", "าบ้", "บ้า", "าน"]),
        ("ที่", ["ที่"]),
        ("ราคา๑๐บาท", ["รา", "าค", "คา", "๑๐", "บา", "าท"]),  # digits ten
        ("ປະເທດລາວ", ["ປະ", "ະເ", "ເທ", "ທດ", "ດລ", "ລາ", "າວ"]),
        ("ນ້ຳ", ["ນ້ຳ"]),  # n with a tone mark, and the vowel am, which is a letter
        # Four letters, three of them with vowel signs or the sign of the next letter's form.
        ("ភាសាខ្មែរ", ["ភាសា", "សាខ្", "ខ្មែ", "មែរ"]),
        ("မြန်မာ", ["မြန်", "န်မာ"]),
        ("東京ไทย", ["東京", "ไท", "ทย"]),  # no pair of two scripts
        ("\u0e48ก", ["\u0e48ก"]),  # a mark without a letter
        ("a\u0e48", ["a", "\u0e48"]),
        # Written with spaces.
        ("한국어 검색엔진", ["한국어", "검색엔진"]),
        ("서울市", ["서울", "市"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("བོད་སྐད", ["བོད", "སྐད"]),
        ("ㄅㄆㄇ", ["ㄅㄆㄇ"]),
    ],
)
def test_a_text_becomes_its_words(text, expected):
    assert FOLDED.words(text) == WITH_ACCENTS.words(text) == expected
    assert FOLDED.key(text) == " ".join(expected)
    assert Terms.split(text) == expected  # of the baselines


def test_the_characters_are_those_of_the_names_of_the_scripts():
    if unicodedata.unidata_version != "14.0.0":
        pytest.skip(f"this Python has Unicode {unicodedata.unidata_version}")
    found = {
        code: script
        for script, kinds in unspaced_characters().items()
        for codes in kinds
        for code in codes
    }
    folded = character_map(True)
    named = {
        code: script
        for code in range(0x110000)
        if code not in folded and (script := unspaced.script_of(chr(code)))
    }
    assert named.items() <= found.items()
    # The others are in the planes of ideographs, for later versions of Unicode.
    others = {code for code in found if code not in named}
    assert others == {code for code in range(0x20000, 0x40000) if code not in named}


@given(st.one_of(texts, KINDS["unspaced"], KINDS["syllables"]), RULE)
def test_words_are_those_of_the_definition(text, rules):
    chunks = compose(text.translate(character_map(rules.keep_accents))).split()
    assert rules.chunks(text) == chunks
    assert rules.words(text) == [word for chunk in chunks for word in unspaced.split(chunk)]


@given(st.one_of(texts, KINDS["unspaced"], KINDS["syllables"]), RULE)
def test_a_word_and_a_key_are_not_split_again(text, rules):
    words = rules.words(text)
    assert all(rules.words(word) == [word] for word in words)
    assert rules.words(rules.key(text)) == words
    assert rules.key(rules.key(text)) == rules.key(text)


SPACED_KINDS = (
    "latin",
    "punctuation",
    "combining_marks",
    "dotted_i",
    "final_sigma",
    "special_cases",
    "right_to_left",
    "emoji",
    "white_space",
)
SPACED = st.one_of(
    *(KINDS[name] for name in SPACED_KINDS),
    st.text(st.sampled_from("한국어검색\u1112\u1161\u11ab हिन्दी"), max_size=9),
    st.text(st.characters(max_codepoint=0xE00), max_size=30),
)


@given(SPACED, RULE)
def test_texts_of_scripts_with_spaces_are_split_at_spaces(text, rules):
    mapped = compose(text.translate(character_map(rules.keep_accents)))
    assert rules.words(text) == mapped.split()
    assert rules.key(text) == "␟".join(
        " ".join(compose(part.translate(character_map(rules.keep_accents))).split())
        for part in text.split("␟")
    ).rstrip("␟")


def test_limits_count_pairs_and_the_letters_of_a_pair():
    vocabulary = Vocabulary([], TextRules(False, max_words=3, max_letters=3))
    assert vocabulary.words("東京都 tokyo") == ["東京", "京都", "tok"]
    assert vocabulary.words("天気予報") == ["天気", "気予", "予報"]
    assert vocabulary.words("天気予報だ") == ["天気", "気予", "予報"]
    assert vocabulary.words("ที่นี่") == ["ที่"]  # of two letters with two marks each, three


def test_pairs_of_a_further_field_are_marked():
    assert TextRules(False, own_fields=2).words("東京都␟東京") == ["東京", "京都", "1␟東京"]


@given(raw_bytes.map(lambda raw: raw.decode("utf-8", "replace")), RULE)
def test_any_bytes_are_split(text, rules):
    assert all(rules.words(word) == [word] for word in rules.words(text))
