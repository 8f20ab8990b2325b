"""Vocabularies of letter n-grams: ids, limits, and the file."""

from __future__ import annotations

import pickle
import re
from dataclasses import asdict, replace
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.common.errors import UserError
from dssm_tf.text.letter_ngrams import bucket, letter_ngrams
from dssm_tf.text.rules import FOLDED, NGRAM_KINDS, TextRules
from dssm_tf.text.stable_hash import fingerprint64, hash_to_unit_interval
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


def test_the_unknown_fraction_counts_every_letter_ngram():
    vocabulary = Vocabulary(["#ca", "cat"], FOLDED)
    # #ca cat at#, twice, and #a#: 4 of 7 are known.
    assert vocabulary.unknown_fraction(["cat", "a Cat"]) == pytest.approx(3 / 7)
    assert vocabulary.unknown_fraction(["", "?!"]) == 0
    assert vocabulary.unknown_fraction(["a"]) == 1


def test_unseen_trigrams_go_to_a_bucket_after_the_known_ones():
    vocabulary = Vocabulary(CAT, TextRules(False, hash_buckets=7))
    expected = (1, 2, 4 + bucket("ats", 7), 4 + bucket("ts#", 7))
    assert vocabulary.ngram_ids("cats") == expected
    assert vocabulary.size == 10
    assert Vocabulary(CAT, FOLDED).ngram_ids("cats") == (1, 2)  # without buckets they are dropped


def test_the_id_of_a_word_follows_its_trigrams_and_single_letters_have_none(tmp_path):
    vocabulary = Vocabulary(CAT, FOLDED).with_words(["cat", "a", "ox", "cat", "1␟cat"])
    assert vocabulary.ngrams == (*CAT, "#cat#", "#ox#", "1␟#cat#")
    assert [*vocabulary.whole_words] == ["#cat#", "#ox#", "1␟#cat#"]
    assert vocabulary.ngram_ids("cat") == (1, 2, 3, 4)
    assert vocabulary.ngram_ids("cats") == (1, 2)
    vocabulary.save(tmp_path / "vocabulary.txt")
    assert Vocabulary.load(tmp_path / "vocabulary.txt", FOLDED).ngrams == vocabulary.ngrams


def test_long_words_and_long_texts_are_truncated():
    vocabulary = Vocabulary(CAT, TextRules(False, max_words=2, max_letters=3))
    assert vocabulary.words("Catherine, a DOG and more") == ["cat", "a"]
    assert vocabulary.ngram_ids("catherine") == vocabulary.ngram_ids("cat") == (1, 2, 3)


@given(texts, st.integers(1, 5), st.integers(1, 5), st.sampled_from([0, 3]))
def test_every_id_is_within_the_size_of_the_vocabulary(text, max_words, max_letters, buckets):
    vocabulary = Vocabulary(CAT, TextRules(False, max_words, max_letters, buckets))
    words = vocabulary.words(text)
    assert words == [word[:max_letters] for word in FOLDED.words(text)][:max_words]
    for word in words:
        ids = vocabulary.ngram_ids(word)
        assert all(1 <= i <= vocabulary.size for i in ids)
        assert len(ids) <= max_letters


@given(st.lists(texts, max_size=4))
def test_a_saved_vocabulary_reads_back(tmp_path_factory, some_texts):
    words = [word for text in some_texts for word in EVERY_KIND.words(text)]
    ngrams = dict.fromkeys(n for word in words for n in letter_ngrams(word, kinds=NGRAM_KINDS))
    vocabulary = Vocabulary(ngrams, EVERY_KIND)
    path = tmp_path_factory.mktemp("vocabulary") / "vocabulary.txt"
    vocabulary.save(path)
    assert path.read_bytes() == "".join(f"{ngram}\n" for ngram in ngrams).encode()
    assert Vocabulary.load(path, EVERY_KIND).ngrams == vocabulary.ngrams
    assert Vocabulary.load(path, EVERY_KIND).fingerprint == vocabulary.fingerprint


def test_a_pickled_vocabulary_is_the_same_without_its_cache():
    vocabulary = Vocabulary(CAT, TextRules(False, hash_buckets=3))
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
        ("letter_ngrams", []),
        ("letter_ngrams", ["pairs", "pairs"]),
        ("letter_ngrams", ["words"]),
        ("letter_ngrams", "pairs"),
    ],
)
def test_a_damaged_rule_is_refused(name, value):
    with pytest.raises(ValueError, match=re.escape(f"{name} is {value!r}; expected")):
        TextRules.from_json(asdict(FOLDED) | {name: value})
    least = {"max_words": 1, "max_letters": 1, "hash_buckets": 0, "own_fields": 1}
    assert TextRules.from_json(asdict(FOLDED) | least) == TextRules(**asdict(FOLDED) | least)


def test_the_fingerprint_changes_with_a_trigram_their_order_and_each_limit():
    variants = [
        Vocabulary(CAT, FOLDED),
        Vocabulary(CAT[:2], FOLDED),
        Vocabulary(CAT[::-1], FOLDED),
        Vocabulary(CAT, TextRules(False, max_words=5)),
        Vocabulary(CAT, TextRules(False, max_letters=5)),
        Vocabulary(CAT, TextRules(False, hash_buckets=5)),
        Vocabulary(CAT, TextRules(keep_accents=True)),
        Vocabulary(CAT, TextRules(False, letter_ngrams=("pairs", "trigrams"))),
    ]
    assert len({vocabulary.fingerprint for vocabulary in variants}) == len(variants)
    assert len(Vocabulary(CAT, FOLDED).fingerprint) == 16


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"#ca\nca\nat#\n",
            r"vocabulary.txt:2 holds 'ca'; expected a letter n-gram such as #ca, or",
        ),
        (b"#ca\ncats\n", r"vocabulary.txt:2 holds 'cats'"),
        (b"#ca\n\ncat\n", r"vocabulary.txt:2 holds ''"),
        (b"#ab##\n", r"vocabulary.txt:1 holds '#ab##'"),
        (b"a#b\n", r"vocabulary.txt:1 holds 'a#b'"),
        (b"cat\ncat\n", "lists 2 letter n-grams, but only 1 are distinct"),
        (b"\xff\xfe\n", "is not UTF-8"),
    ],
)
def test_a_damaged_file_is_refused_with_line_and_reason(tmp_path, content, message):
    path = tmp_path / "vocabulary.txt"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        Vocabulary.load(path, FOLDED)


EVERY_KIND = TextRules(False, own_fields=2, letter_ngrams=NGRAM_KINDS)


@pytest.mark.parametrize(
    "line",
    ["##", "~#ca", "~##", "~###", "~#a", "~#act", "abcd", "#", "~", "1␟", "6␟ca", "1ca#", "1#cat#"],
)
def test_a_line_that_is_no_ngram_of_any_kind_is_refused(tmp_path, line):
    path = tmp_path / "vocabulary.txt"
    path.write_text(f"ca\n1␟~#ac\n{line}\n", "utf-8")
    message = f"vocabulary.txt:3 holds {line!r}; expected a letter n-gram such as #c, #ca, ~#ac, or"
    with pytest.raises(UserError, match=re.escape(message)):
        Vocabulary.load(path, EVERY_KIND)


def test_ids_of_a_word_are_in_the_order_of_the_kinds():
    ngrams = ["~#at", "at#", "t#", "#cat#", "1␟~#at", "1␟t#", "#ca", "#c"]
    vocabulary = Vocabulary(ngrams, EVERY_KIND)
    assert vocabulary.look_up("cat") == (8, 3, 7, 2, 1, 4)  # #c t#, #ca at#, ~#at, #cat#
    assert vocabulary.look_up("1␟cat") == (6, 5)
    buckets = TextRules(False, hash_buckets=9, letter_ngrams=("pairs", "sorted_trigrams"))
    ids = Vocabulary(["a#"], buckets).look_up("a")
    assert ids == (2 + bucket("#a", 9), 1, 2 + bucket("~##a", 9))


def test_kinds_that_the_rules_lack_are_refused_and_left_out():
    with pytest.raises(ValueError, match="lists 'ca', of kind pairs; its rules have trigrams"):
        Vocabulary(["ca"], FOLDED)
    every = Vocabulary(["ca", *CAT, "~act", "#cat#"], EVERY_KIND)
    kept = every.with_letter_ngrams(["trigrams"])
    assert kept.ngrams == (*CAT, "#cat#")
    assert kept.rules == TextRules(False, own_fields=2)
    assert every.with_letter_ngrams(["sorted_trigrams", "pairs"]).rules.letter_ngrams == (
        "pairs",
        "sorted_trigrams",
    )
    assert every.with_letter_ngrams(NGRAM_KINDS).fingerprint == every.fingerprint


def test_each_kind_has_its_own_maximum_and_equal_counts_are_ordered_by_their_characters():
    rules = TextRules(False, own_fields=3, letter_ngrams=("pairs", "trigrams"))
    counts = {"cat": 2, "1␟cat": 2, "123": 2, "ca": 2, "2␟ca": 5, "at": 1, "#ca": 9, "#a#": 1}
    # 1cat is after 123, as its characters are.
    expected = ("#ca", "2␟ca", "123", "1␟cat", "ca", "cat")
    assert Vocabulary.from_counts(counts, 9, rules, 2).ngrams == expected
    expected = ("#ca", "2␟ca", "123", "ca")
    assert Vocabulary.from_counts(counts, 2, rules, 1).ngrams == expected
    assert Vocabulary.from_counts(counts, 2, rules, 1).counts == {"pairs": 2, "trigrams": 2}


def test_the_error_for_a_missing_file_names_preprocess(tmp_path):
    with pytest.raises(UserError, match=r"nowhere.txt does not exist; preprocess writes it"):
        Vocabulary.load(tmp_path / "nowhere.txt", FOLDED)


def test_the_fingerprint_of_a_vocabulary_does_not_change_with_names_in_the_code():
    # Data, runs and indexes on disk contain it.
    content = (
        "Rules(keep_accents=False, max_words=8, max_letters=64, hash_buckets=0, own_fields=1, "
        "letter_ngrams=('trigrams',))\n#ca\nat#\ncat"
    )
    rules = replace(FOLDED, max_words=8, letter_ngrams=("trigrams",))
    vocabulary = Vocabulary(["#ca", "at#", "cat"], rules)
    assert vocabulary.fingerprint == sha256(content.encode()).hexdigest()[:16]


def test_fingerprints_never_change():
    # Records on disk contain them. `printf "ice cream" | b2sum -l 64` prints e9278e4482b294f9, the
    # bytes from low to high; the highest bit is set, so the signed number is negative.
    expected = int.from_bytes(bytes.fromhex("e9278e4482b294f9"), "little") - 2**64
    assert fingerprint64("ice cream") == expected
    assert hash_to_unit_interval("ice cream", "split") == pytest.approx(
        0.919461172396072, abs=1e-15
    )


@given(texts, st.text(max_size=8))
def test_sampling_a_text_is_deterministic_and_depends_on_the_salt(text, salt):
    assert 0 <= hash_to_unit_interval(text, salt) < 1
    assert hash_to_unit_interval(text, salt) == hash_to_unit_interval(text, salt)
    assert hash_to_unit_interval(text, salt) != hash_to_unit_interval(text, salt + "!")
    assert -(2**63) <= fingerprint64(text) < 2**63
