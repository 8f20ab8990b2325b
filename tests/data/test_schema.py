"""Records, the feature spec and the title table: written, read, and refused when damaged."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.common.errors import UserError
from dssm_tf.data.example_pb2 import Example
from dssm_tf.data.schema import (
    FeatureSpec,
    Title,
    load_titles,
    load_vocabulary,
)
from dssm_tf.text.rules import FOLDED, Rules
from dssm_tf.text.vocabulary import Vocabulary
from tests.clicks import ClickExample

VOCABULARY = Vocabulary(["#ca", "cat", "at#", "#a#"], FOLDED)


def features(example: ClickExample, vocabulary: Vocabulary = VOCABULARY):
    parsed = Example.FromString(example.serialize(vocabulary)).features.feature
    return {
        name: list(getattr(value, value.WhichOneof("kind")).value) for name, value in parsed.items()
    }


def spec(**changes) -> FeatureSpec:
    values = dict(
        negatives=4, negative_alpha=0.75, vocabulary_size=4,
        vocabulary_fingerprint=VOCABULARY.fingerprint,
        records={"train": 10, "validation": 2}, clicks=12, pairs=10, rules=FOLDED,
    )  # fmt: skip
    return FeatureSpec(**(values | changes))


def test_a_record_holds_the_trigrams_of_its_words_in_order():
    example = ClickExample("Cat!", [Title("a cat", 5, 2), Title("dog", 1, 1)], 3, [])
    found = features(example)
    assert found["query"] == [b"Cat!"]
    assert found["titles"] == [b"a cat", b"dog"]
    # "cat" is #ca cat at# = 1 2 3; "a" is #a# = 4; none of dog's trigrams is known.
    assert found["query_ngrams"] == [1, 2, 3]
    assert found["query_word_ngrams"] == [3]
    assert found["title_lengths"] == [2, 1]
    assert found["title_word_ngrams"] == [1, 3, 0]
    assert found["title_ngrams"] == [4, 1, 2, 3]
    assert found["clicks"] == [3.0]
    assert found["title_clicks"] == [5, 1]
    assert found["title_queries"] == [2, 1]
    # Same word, same fingerprint, in query and title.
    assert found["query_words"] == found["title_words"][1:2]


@given(query=st.text(max_size=30), titles=st.lists(st.text(max_size=30), min_size=1, max_size=5))
def test_the_lists_of_a_record_fit_together(query, titles):
    found = features(ClickExample(query, [Title(one) for one in titles], 1, []))
    assert len(found["title_ids"]) == len(found["title_lengths"]) == len(titles)
    assert sum(found["title_lengths"]) == len(found["title_words"])
    assert len(found["title_words"]) == len(found["title_word_ngrams"])
    assert sum(found["title_word_ngrams"]) == len(found["title_ngrams"])
    assert len(found["query_words"]) == len(found["query_word_ngrams"])
    assert sum(found["query_word_ngrams"]) == len(found["query_ngrams"])


def test_texts_that_no_model_can_tell_apart_have_one_id():
    assert FOLDED.id("Ice  CREAM?") == FOLDED.id("ice cream") != FOLDED.id("icecream")


def test_tensorflow_reads_the_record_as_its_own_message():
    tf = pytest.importorskip("tensorflow")
    example = ClickExample("Cat!", [Title("a cat", 5, 2)], 3, [-9])
    ours = Example.FromString(example.serialize(VOCABULARY))
    theirs = tf.train.Example.FromString(example.serialize(VOCABULARY))
    assert str(ours) == str(theirs)


def test_records_need_no_tensorflow():
    code = (
        "import sys, dssm_tf.data.record_encoder, dssm_tf.data.schema, dssm_tf.tables.click_log;"
        "print([name for name in ('tensorflow', 'keras') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_feature_spec_reads_back(tmp_path):
    written = spec(rules=Rules(False, max_words=3, max_letters=9, hash_buckets=2))
    written.save(tmp_path)
    assert FeatureSpec.load(tmp_path) == written


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda raw: raw | {"format_version": 99}, "record format 99"),
        (lambda raw: {k: v for k, v in raw.items() if k != "pairs"}, "damaged"),
        (lambda raw: raw | {"surprise": 1}, "damaged"),
        (lambda raw: raw | {"rules": raw["rules"] | {"more": 2}}, "damaged"),
        (lambda raw: raw | {"rules": {"max_words": 1}}, "damaged"),
        (lambda raw: raw | {"rules": raw["rules"] | {"keep_accents": 1}}, "expected true or false"),
    ],
)
def test_a_damaged_feature_spec_is_refused_in_one_line(tmp_path, damage, message):
    spec().save(tmp_path)
    path = tmp_path / "feature_spec.json"
    path.write_text(json.dumps(damage(json.loads(path.read_text("utf-8")))), "utf-8")
    with pytest.raises(UserError, match=message):
        FeatureSpec.load(tmp_path)


def test_a_missing_or_torn_feature_spec_is_refused(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        FeatureSpec.load(tmp_path)
    (tmp_path / "feature_spec.json").write_text('{"negatives": 4,', "utf-8")
    with pytest.raises(UserError, match="damaged"):
        FeatureSpec.load(tmp_path)


def test_a_vocabulary_of_another_run_is_refused(tmp_path):
    VOCABULARY.save(tmp_path / "vocabulary.txt")
    assert load_vocabulary(tmp_path, spec()).ngrams == VOCABULARY.ngrams
    with pytest.raises(UserError, match="fingerprint"):
        load_vocabulary(tmp_path, spec(vocabulary_fingerprint="0" * 16))


def test_a_title_table_reads_back_and_a_damaged_row_is_named(tmp_path):
    path = tmp_path / "titles.tsv"
    path.write_text("title\tclicks\tqueries\nHalo: Reach\t3\t2\nnaïve\t0\t0\n", "utf-8")
    assert load_titles(tmp_path) == [Title("Halo: Reach", 3, 2), Title("naïve", 0, 0)]
    path.write_text("title\tclicks\tqueries\nHalo: Reach\t3\n", "utf-8")
    with pytest.raises(UserError, match=r"titles.tsv:2 holds 'Halo: Reach"):
        load_titles(tmp_path)
