"""Titles of several fields as one text, with shared trigrams or trigrams per field."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.common.errors import UserError
from dssm_tf.text.fields import SEPARATOR, join_fields, parse_fields, split_fields
from dssm_tf.text.letter_ngrams import bucket
from dssm_tf.text.rules import FOLDED, TextRules
from dssm_tf.text.vocabulary import Vocabulary
from tests.reference.unicode_strategies import texts

SEPARATE = TextRules(False, own_fields=3)
FIELDS = st.lists(texts, min_size=1, max_size=5).map(SEPARATOR.join)


def test_words_of_further_fields_have_separate_trigrams():
    vocabulary = Vocabulary(["#so", "son", "1␟#so", "1␟son", "2␟#so"], SEPARATE)
    title = "So: Sony␟SONY␟so␟sons"
    # The fourth field is part of the third, which is the last field with separate trigrams.
    assert vocabulary.words(title) == ["so", "sony", "1␟sony", "2␟so", "2␟sons"]
    assert [vocabulary.ngram_ids(word) for word in vocabulary.words(title)] == [
        (1,), (1, 2), (3, 4), (5,), (5,)
    ]  # fmt: skip


def test_shared_trigrams_read_all_fields_as_a_single_text():
    assert Vocabulary([], FOLDED).words("So: Sony␟SONY␟so") == FOLDED.words("So: Sony SONY so")


def test_rules_count_words_of_all_fields_and_letters_without_the_mark():
    rules = TextRules(False, max_words=3, max_letters=2, own_fields=2)
    assert Vocabulary([], rules).words("abc d␟efg hij") == ["ab", "d", "1␟ef"]


def test_a_bucket_depends_on_the_field():
    buckets = {bucket(mark + "abc", 2_000_003) for mark in ("", "1␟", "2␟", "3␟", "4␟", "5␟")}
    assert len(buckets) == 6


@given(FIELDS, st.sampled_from([FOLDED, SEPARATE]))
def test_normalization_keeps_the_words_and_is_idempotent(text, rules):
    form = FOLDED.key(text)
    assert FOLDED.key(form) == form
    assert rules.words(form) == rules.words(text)


@given(st.lists(texts.filter(lambda text: SEPARATOR not in text), min_size=1, max_size=5))
def test_split_fields_inverts_join_fields(fields):
    result = split_fields(join_fields(fields))
    assert result + [""] * (len(fields) - len(result)) == fields


def test_titles_differ_if_their_fields_differ():
    assert FOLDED.key("Halo ␟ Sony") != FOLDED.key("Halo Sony") == FOLDED.key("halo sony␟␟")


def test_the_rule_is_part_of_the_fingerprint_and_of_the_file(tmp_path):
    plain, separate = Vocabulary(["cat"], FOLDED), Vocabulary(["cat", "1␟cat"], SEPARATE)
    assert plain.fingerprint != Vocabulary(["cat"], SEPARATE).fingerprint
    separate.save(tmp_path / "vocabulary.txt")
    assert Vocabulary.load(tmp_path / "vocabulary.txt", SEPARATE).ngrams == separate.ngrams
    (tmp_path / "bad.txt").write_text("cat\n6␟cat\n", "utf-8")
    with pytest.raises(UserError, match=r"bad\.txt:2 holds '6␟cat'"):
        Vocabulary.load(tmp_path / "bad.txt", SEPARATE)


@pytest.mark.parametrize("names", ["", "title,", "title,brand,Title"])
def test_empty_or_repeated_names_of_fields_are_refused(names):
    with pytest.raises(UserError, match="--title-fields is"):
        parse_fields(names)
