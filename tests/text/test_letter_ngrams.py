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
def test_trigrams_run_between_the_boundary_marks(word, expected):
    assert letter_ngrams(word) == expected


@given(words)
def test_there_is_one_trigram_a_letter_and_its_middle_spells_the_word(word):
    found = letter_ngrams(word, max_letters=100)
    assert found == trigrams(word)
    assert "".join(ngram[1] for ngram in found) == word


def test_a_word_beyond_the_limit_is_cut_and_then_ended():
    assert letter_ngrams("abcdef", max_letters=3) == ["#ab", "abc", "bc#"]
    assert len(letter_ngrams("x" * 10_000)) == 64


def test_a_bucket_is_the_documented_hash():
    # "abc" is 97 98 99: their products with the multipliers, summed, modulo 2^31 - 1, modulo 10.
    mixed = 97 * 1_000_003_337 + 98 * 2_654_435_761 + 99 * 1_620_619_981
    assert bucket("abc", 10) == mixed % (2**31 - 1) % 10
    assert bucket("2abc", 10) == (mixed + 2 * 1_181_783_497) % (2**31 - 1) % 10
    assert bucket("abc", 10**9) != bucket("cba", 10**9)


def test_the_hash_stays_below_what_64_bits_hold():
    assert sum(BUCKET_MULTIPLIERS) * 0x10FFFF < 2**63
    assert BUCKET_MODULUS < 2**31
