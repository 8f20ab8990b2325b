"""Vocabularies of trigrams: ids, limits, and the file."""

from __future__ import annotations

import pickle
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.common.errors import UserError
from dssm_tf.text.letter_ngrams import bucket, letter_ngrams
from dssm_tf.text.rules import FOLDED, Rules
from dssm_tf.text.stable_hash import fingerprint64, unit_interval
from dssm_tf.text.vocabulary import Vocabulary
from tests.reference.unicode_strategies import texts

CAT = ["#ca", "cat", "at#"]


def test_ids_start_at_1_with_the_most_frequent_trigram():
    vocabulary = Vocabulary.from_counts({"cat": 2, "#ca": 5, "at#": 2, "dog": 1}, 3, FOLDED, 1)
    # "at#" before "cat": equal counts are in code point order; "dog" exceeds the size.
    assert vocabulary.ngrams == ("#ca", "at#", "cat")
    assert vocabulary.ngram_ids("cat") == (1, 3, 2)
    assert vocabulary.size == 3
    assert Vocabulary.from_counts({"cat": 2, "dog": 1}, 9, FOLDED, 2).ngrams == ("cat",)


def test_the_unknown_fraction_counts_every_letter_trigram():
    vocabulary = Vocabulary(["#ca", "cat"], FOLDED)
    # #ca cat at#, twice, and #a#: 4 of 7 are known.
    assert vocabulary.unknown_fraction(["cat", "a Cat"]) == pytest.approx(3 / 7)
    assert vocabulary.unknown_fraction(["", "?!"]) == 0
    assert vocabulary.unknown_fraction(["a"]) == 1


def test_unseen_trigrams_go_to_a_bucket_after_the_known_ones():
    vocabulary = Vocabulary(CAT, Rules(False, hash_buckets=7))
    expected = (1, 2, 4 + bucket("ats", 7), 4 + bucket("ts#", 7))
    assert vocabulary.ngram_ids("cats") == expected
    assert vocabulary.size == 10
    assert Vocabulary(CAT, FOLDED).ngram_ids("cats") == (1, 2)  # without buckets they are dropped


def test_the_id_of_a_word_follows_its_trigrams_and_single_letters_have_none(tmp_path):
    vocabulary = Vocabulary(CAT, FOLDED).with_words(["cat", "a", "ox", "cat", "1␟cat"])
    assert vocabulary.ngrams == (*CAT, "#cat#", "#ox#", "1#cat#")
    assert [*vocabulary.whole_words] == ["#cat#", "#ox#", "1#cat#"]
    assert vocabulary.ngram_ids("cat") == (1, 2, 3, 4)
    assert vocabulary.ngram_ids("cats") == (1, 2)
    vocabulary.save(tmp_path / "vocabulary.txt")
    assert Vocabulary.load(tmp_path / "vocabulary.txt", FOLDED).ngrams == vocabulary.ngrams


def test_long_words_and_long_texts_are_truncated():
    vocabulary = Vocabulary(CAT, Rules(False, max_words=2, max_letters=3))
    assert vocabulary.words("Catherine, a DOG and more") == ["cat", "a"]
    assert vocabulary.ngram_ids("catherine") == vocabulary.ngram_ids("cat") == (1, 2, 3)


@given(texts, st.integers(1, 5), st.integers(1, 5), st.sampled_from([0, 3]))
def test_every_id_is_within_the_size_of_the_vocabulary(text, max_words, max_letters, buckets):
    vocabulary = Vocabulary(CAT, Rules(False, max_words, max_letters, buckets))
    words = vocabulary.words(text)
    assert words == [word[:max_letters] for word in FOLDED.words(text)][:max_words]
    for word in words:
        ids = vocabulary.ngram_ids(word)
        assert all(1 <= i <= vocabulary.size for i in ids)
        assert len(ids) <= max_letters


@given(st.lists(texts, max_size=4))
def test_a_saved_vocabulary_reads_back(tmp_path_factory, some_texts):
    ngrams = dict.fromkeys(n for t in some_texts for w in FOLDED.words(t) for n in letter_ngrams(w))
    vocabulary = Vocabulary(ngrams, FOLDED)
    path = tmp_path_factory.mktemp("vocabulary") / "vocabulary.txt"
    vocabulary.save(path)
    assert path.read_bytes() == "".join(f"{ngram}\n" for ngram in ngrams).encode()
    assert Vocabulary.load(path, FOLDED).ngrams == vocabulary.ngrams
    assert Vocabulary.load(path, FOLDED).fingerprint == vocabulary.fingerprint


def test_a_pickled_vocabulary_is_the_same_without_its_cache():
    vocabulary = Vocabulary(CAT, Rules(False, hash_buckets=3))
    fresh = len(pickle.dumps(vocabulary))
    vocabulary.ngram_ids("concatenation")
    assert len(pickle.dumps(vocabulary)) == fresh
    again = pickle.loads(pickle.dumps(vocabulary))
    assert (again.ngrams, again.rules) == (vocabulary.ngrams, vocabulary.rules)
    assert again.ngram_ids("cats") == vocabulary.ngram_ids("cats")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("keep_accents", 1),
        ("max_words", 0),
        ("max_letters", 2.5),
        ("hash_buckets", -1),
        ("own_fields", 7),
    ],
)
def test_a_damaged_rule_is_refused(name, value):
    with pytest.raises(ValueError, match=rf"{name} is {value}; expected"):
        Rules.of_json(asdict(FOLDED) | {name: value})
    least = {"max_words": 1, "max_letters": 1, "hash_buckets": 0, "own_fields": 1}
    assert Rules.of_json(asdict(FOLDED) | least) == Rules(**asdict(FOLDED) | least)


def test_the_fingerprint_changes_with_a_trigram_their_order_and_each_limit():
    variants = [
        Vocabulary(CAT, FOLDED),
        Vocabulary(CAT[:2], FOLDED),
        Vocabulary(CAT[::-1], FOLDED),
        Vocabulary(CAT, Rules(False, max_words=5)),
        Vocabulary(CAT, Rules(False, max_letters=5)),
        Vocabulary(CAT, Rules(False, hash_buckets=5)),
        Vocabulary(CAT, Rules(keep_accents=True)),
    ]
    assert len({vocabulary.fingerprint for vocabulary in variants}) == len(variants)
    assert len(Vocabulary(CAT, FOLDED).fingerprint) == 16


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"#ca\nca\nat#\n", r"vocabulary.txt:2 holds 'ca'; expected a letter trigram"),
        (b"#ca\ncats\n", r"vocabulary.txt:2 holds 'cats'"),
        (b"#ca\n\ncat\n", r"vocabulary.txt:2 holds ''"),
        (b"#ab##\n", r"vocabulary.txt:1 holds '#ab##'"),
        (b"a#b\n", r"vocabulary.txt:1 holds 'a#b'"),
        (b"cat\ncat\n", "lists 2 trigrams, but only 1 are distinct"),
        (b"\xff\xfe\n", "is not UTF-8"),
    ],
)
def test_a_damaged_file_is_refused_with_line_and_reason(tmp_path, content, message):
    path = tmp_path / "vocabulary.txt"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        Vocabulary.load(path, FOLDED)


def test_the_error_for_a_missing_file_names_preprocess(tmp_path):
    with pytest.raises(UserError, match=r"nowhere.txt does not exist; preprocess writes it"):
        Vocabulary.load(tmp_path / "nowhere.txt", FOLDED)


def test_fingerprints_never_change():
    # Records on disk contain them. `printf "ice cream" | b2sum -l 64` prints e9278e4482b294f9, the
    # bytes from low to high; the highest bit is set, so the signed number is negative.
    expected = int.from_bytes(bytes.fromhex("e9278e4482b294f9"), "little") - 2**64
    assert fingerprint64("ice cream") == expected
    assert unit_interval("ice cream", "split") == pytest.approx(0.919461172396072, abs=1e-15)


@given(texts, st.text(max_size=8))
def test_sampling_a_text_is_deterministic_and_depends_on_the_salt(text, salt):
    assert 0 <= unit_interval(text, salt) < 1
    assert unit_interval(text, salt) == unit_interval(text, salt)
    assert unit_interval(text, salt) != unit_interval(text, salt + "!")
    assert -(2**63) <= fingerprint64(text) < 2**63
