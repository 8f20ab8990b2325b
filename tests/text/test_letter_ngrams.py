"""Letter trigrams of a word, and the bucket of an unseen one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.text.letter_ngrams import BUCKET_MODULUS, BUCKET_MULTIPLIERS, bucket, letter_ngrams
from tests.reference.letter_trigrams import trigrams

words = st.text(st.characters(exclude_characters="#"), min_size=1, max_size=70)


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


def test_a_long_word_is_truncated_before_the_boundary_mark():
    assert letter_ngrams("abcdef", max_letters=3) == ["#ab", "abc", "bc#"]
    assert len(letter_ngrams("x" * 10_000)) == 64


def test_a_bucket_is_the_documented_hash():
    # "abc" is 97 98 99: their products with the multipliers, summed, modulo 2^31 - 1, modulo 10.
    mixed = 97 * 1_000_003_337 + 98 * 2_654_435_761 + 99 * 1_620_619_981
    assert bucket("abc", 10) == mixed % (2**31 - 1) % 10
    assert bucket("2abc", 10) == (mixed + 2 * 1_181_783_497) % (2**31 - 1) % 10
    assert bucket("abc", 10**9) != bucket("cba", 10**9)


def test_the_hash_does_not_overflow_int64():
    assert sum(BUCKET_MULTIPLIERS) * 0x10FFFF < 2**63
    assert BUCKET_MODULUS < 2**31
