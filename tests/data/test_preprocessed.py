"""A preprocessed directory reads back as written; a damaged one is an error in one line."""

from __future__ import annotations

import json
import re
from collections import Counter
from random import Random

import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.data.format import KINDS, Spec
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.text.rules import FOLDED, NGRAM_KINDS, TextRules
from tests.clicks import Click, click_log, seal, write_data


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("preprocessed") / "data", click_log(), shards=3)


@pytest.fixture
def read(data):
    return Preprocessed(data.path)


@pytest.fixture
def copy(tmp_path):
    return write_data(tmp_path / "data", click_log(), negatives=2)


def test_pairs_are_those_of_the_log(data, read):
    for split, pairs in data.pairs.items():
        expected = [(pair.query, pair.title, float(pair.clicks)) for pair in pairs]
        assert read.log(split) == sorted(expected)
    assert read.log() == sorted((q, t, float(c)) for q, t, c in click_log())
    assert read.nonempty_splits == ("train", "validation")
    assert read.count("train", "validation") == len(click_log())


def test_negatives_are_unclicked_titles_and_missing_ones_are_minus_1(tmp_path):
    log = [Click("fox", "red fox"), Click("any", "red fox"), Click("any", "owl")]
    read = Preprocessed(write_data(tmp_path / "data", log, validation=(), negatives=3).path)
    fox, owl = read.find("titles", ["red fox", "owl"]).tolist()
    rows = {*map(tuple, read.splits["train"].titles.tolist())}
    assert rows == {(fox, owl, -1, -1), (fox, -1, -1, -1), (owl, -1, -1, -1)}
    clicked = [read.clicked[query].as_py() for query in read.find("queries", ["fox", "any"])]
    assert clicked == [[fox], sorted([fox, owl])]


def test_the_most_frequent_words_have_rows_if_their_number_is_limited(tmp_path):
    log = [Click("fox", "red fox"), Click("red", "red owl"), Click("wet owl", "red fox wet")]
    read = Preprocessed(write_data(tmp_path / "data", log, validation=(), negatives=1).path)
    # In three queries and three titles: red 4, fox 3; owl and wet 2.
    rows = [
        {*read.with_whole_words(limit).vocabulary.whole_words} for limit in (1, 2, 3, 4, 9, None)
    ]
    assert rows[:2] == [{"#red#"}, {"#red#", "#fox#"}]
    assert rows[1] < rows[2] < rows[3]
    assert rows[3] == rows[4] == rows[5] == {"#red#", "#fox#", "#owl#", "#wet#"}


def test_titles_have_the_clicks_of_the_training_split(data, read):
    clicks, pairs = Counter(), Counter()
    for pair in data.pairs["train"]:
        clicks[pair.title] += pair.clicks
        pairs[pair.title] += 1
    for title in read.titles:
        assert (title.clicks, title.queries) == (clicks[title.text], pairs[title.text])


def test_words_are_those_of_the_texts_with_their_ngrams(data, read):
    words, ngrams = read.distinct_words
    for kind in ("queries", "titles"):
        word_indices = read.words(kind)
        for row, text in enumerate(read.texts(kind)):
            assert [words[index] for index in word_indices[row].as_py()] == FOLDED.words(text)
    for row, word in enumerate(words):
        assert tuple(ngrams[row].as_py()) == data.vocabulary.look_up(word)


@pytest.mark.parametrize("buckets", [0, 5])
def test_ids_of_one_kind_do_not_depend_on_the_kinds_that_were_written(tmp_path, buckets):
    def read(name, kinds):
        rules = TextRules(False, hash_buckets=buckets, letter_ngrams=kinds)
        return Preprocessed(write_data(tmp_path / name, click_log(), rules=rules).path)

    every, trigrams_only = read("every", NGRAM_KINDS), read("alone", ("trigrams",))
    kept = every.with_letter_ngrams(["trigrams"])
    assert kept.distinct_words == trigrams_only.distinct_words
    assert (
        kept.vocabulary.fingerprint == trigrams_only.vocabulary.fingerprint == kept.spec.fingerprint
    )
    assert kept.rules == kept.spec.rules == trigrams_only.rules
    assert kept.spec.vocabulary_size == kept.vocabulary.size == trigrams_only.spec.vocabulary_size
    assert kept.with_whole_words().distinct_words == trigrams_only.with_whole_words().distinct_words
    assert every.rules.letter_ngrams == NGRAM_KINDS  # unchanged
    assert every.with_letter_ngrams(NGRAM_KINDS) is every


def test_kinds_that_were_not_written_are_an_error_that_names_the_flag(data, read):
    message = (
        f"letter_ngrams: received pairs, but {data.path} has trigrams; run preprocess with "
        "--letter-ngrams pairs,trigrams."
    )
    with pytest.raises(UserError, match=re.escape(message)):
        read.with_letter_ngrams(["pairs"])


def test_texts_are_compared_under_the_text_rules(read):
    titles = read.texts("titles")
    variants = [title.upper() + "!" for title in titles]
    assert read.find("titles", [*variants, "a zebra"]).tolist() == [*range(len(titles)), -1]
    assert read.find("queries", []).tolist() == []


@pytest.mark.parametrize("kind", [*KINDS, "vocabulary"])
def test_a_damaged_or_missing_file_is_refused_in_one_line(copy, kind):
    random = Random(kind)
    path = min(copy.path.glob(f"{kind}*"))
    intact = path.read_bytes()
    for _ in range(5):
        at = random.randrange(len(intact))
        changed = intact[:at] + bytes([intact[at] ^ 1 + random.randrange(255)]) + intact[at + 1 :]
        for content in (intact[:at], changed, intact + b"\0"):
            path.write_bytes(content)
            with pytest.raises(
                UserError, match=rf"{path.name} is missing, damaged .*run preprocess"
            ):
                Preprocessed(copy.path)
    path.unlink()
    with pytest.raises(UserError, match=rf"{path.name} is missing"):
        Preprocessed(copy.path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 99}, "has format 99; this version reads 7. Run preprocess"),
        ({"clicks": None}, "damaged or was changed"),
        ({"negatives": 3}, "damaged or was changed"),
        ({"sha256": None}, "damaged or was changed"),
        (None, "has format None"),
    ],
)
def test_a_damaged_or_foreign_spec_is_refused_in_one_line(copy, change, message):
    """`change` replaces values, and None removes one; without a change the file has a list."""
    path = copy.path / "spec.json"
    raw = json.loads(path.read_text("utf-8")) | (change or {})
    changed = {key: value for key, value in raw.items() if value is not None} if change else [raw]
    path.write_text(json.dumps(changed), "utf-8")
    with pytest.raises(UserError, match=message):
        Preprocessed(copy.path)


@pytest.mark.parametrize("name", [".", "nowhere"])
def test_a_directory_that_has_no_spec_or_does_not_exist_is_refused_in_one_line(tmp_path, name):
    with pytest.raises(UserError, match=r"spec.json does not exist. Give the .* preprocess again"):
        Preprocessed(tmp_path / name)


def test_a_spec_reads_back_equal(copy):
    assert Spec.load(copy.path) == copy.spec


def test_another_vocabulary_is_refused(copy):
    path = copy.path / "vocabulary.txt"
    path.write_text("".join(reversed(path.read_text("utf-8").splitlines(keepends=True))), "utf-8")
    seal(copy.path, copy.spec)
    with pytest.raises(UserError, match="the words were hashed with"):
        _ = Preprocessed(copy.path).vocabulary
