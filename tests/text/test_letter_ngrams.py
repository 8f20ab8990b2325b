"""Letter n-grams of a word, and the bucket of an unseen one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.text.characters import SPACE, character_map
from dssm_tf.text.letter_ngrams import (
    BOUNDARY,
    BUCKET_MODULUS,
    BUCKET_MULTIPLIERS,
    FIELD_MULTIPLIER,
    KIND_TERMS,
    SORTED,
    bucket,
    letter_ngrams,
    parse_ngram,
)
from dssm_tf.text.rules import NGRAM_KINDS
from tests.reference.letter_trigrams import pairs, sorted_trigrams, trigrams

words = st.text(st.characters(exclude_characters="#~␟"), min_size=1, max_size=70)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("ab", ["#ab", "ab#"]),
        ("aaaa", ["#aa", "aaa", "aaa", "aa#"]),  # with repetition
        ("👍é", ["#👍é", "👍é#"]),
    ],
)
def test_trigrams_include_the_boundary_marks(word, expected):
    assert letter_ngrams(word) == expected


@given(words)
def test_each_letter_is_the_middle_of_a_trigram(word):
    ngrams = letter_ngrams(word, max_letters=100)
    assert ngrams == trigrams(word)
    assert "".join(ngram[1] for ngram in ngrams) == word


@pytest.mark.parametrize(
    ("kind", "word", "expected"),
    [
        ("pairs", "cat", ["#c", "ca", "at", "t#"]),
        ("pairs", "a", ["#a", "a#"]),
        ("pairs", "2␟aa", ["2␟#a", "2␟aa", "2␟a#"]),
        # The code point of the boundary mark is below those of letters and digits.
        ("sorted_trigrams", "cat", ["~#ac", "~act", "~#at"]),
        ("sorted_trigrams", "a", ["~##a"]),
        ("sorted_trigrams", "2␟1b", ["2␟~#1b", "2␟~#1b"]),
    ],
)
def test_pairs_and_sorted_trigrams_of_a_word(kind, word, expected):
    assert letter_ngrams(word, kinds=[kind]) == expected


@given(words, st.sampled_from(["", "3␟"]))
def test_the_kinds_of_a_word_follow_each_other(word, mark):
    expected = [*pairs(word), *trigrams(word), *sorted_trigrams(word)]
    assert len(expected) == 3 * len(word) + 1
    ngrams = letter_ngrams(mark + word, 100, NGRAM_KINDS)
    assert ngrams == [mark + ngram for ngram in expected]
    kinds = [
        kind
        for kind, more in (("pairs", 1), ("trigrams", 0), ("sorted_trigrams", 0))
        for _ in range(len(word) + more)
    ]
    assert [tuple(parse_ngram(ngram)) for ngram in ngrams] == [
        (mark[:1], kind, ngram.lstrip("~")) for kind, ngram in zip(kinds, expected, strict=True)
    ]


def test_swapped_letters_share_the_sorted_trigram_of_both():
    shared = {*letter_ngrams("brid", kinds=["sorted_trigrams"])} & {
        *letter_ngrams("bird", kinds=["sorted_trigrams"])
    }
    # #br bri rid id# and #bi bir ird rd#: bri and bir, rid and ird.
    assert shared == {"~bir", "~dir"}
    assert not {*letter_ngrams("brid")} & {*letter_ngrams("bird")}


def test_the_marks_are_never_part_of_a_word():
    assert all(character_map(False)[ord(mark)] == SPACE for mark in (BOUNDARY, SORTED, "␟"))


def test_a_long_word_is_truncated_before_the_boundary_mark():
    assert letter_ngrams("abcdef", max_letters=3) == ["#ab", "abc", "bc#"]
    assert len(letter_ngrams("x" * 10_000)) == 64


def test_a_bucket_is_the_documented_hash():
    # "abc" is 97 98 99: their products with the multipliers, summed, modulo 2^31 - 1, modulo 10.
    mixed = 97 * 1_000_003_337 + 98 * 2_654_435_761 + 99 * 1_620_619_981
    assert bucket("abc", 10) == mixed % (2**31 - 1) % 10
    assert bucket("2␟abc", 10) == (mixed + 2 * 1_181_783_497) % (2**31 - 1) % 10
    assert bucket("abc", 10**9) != bucket("cba", 10**9)
    mixed = 97 * 1_000_003_337 + 98 * 2_654_435_761 + 3 * 1_181_783_497 + 1_442_695_041
    assert bucket("3␟ab", 10**9) == mixed % (2**31 - 1) % 10**9
    assert bucket("~abc", 10**9) != bucket("abc", 10**9)


def test_the_hash_does_not_overflow_int64():
    mixed = sum(BUCKET_MULTIPLIERS) * 0x10FFFF + 5 * FIELD_MULTIPLIER + max(KIND_TERMS.values())
    assert mixed < 2**63
    assert BUCKET_MODULUS < 2**31
