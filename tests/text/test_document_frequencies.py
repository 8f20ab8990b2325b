"""Document frequencies of words and of pairs of neighboring words."""

from __future__ import annotations

import json
import tempfile
from math import log
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from dssm_tf.common.errors import UserError
from dssm_tf.text.document_frequencies import DocumentFrequencies

_TITLES = [
    ["red", "shoe", "red", "shoe"],
    ["red", "shoe", "box"],
    ["shoe", "box"],
    ["blue", "hat"],
    [],
]
_TITLE_LISTS = st.lists(st.lists(st.sampled_from("abcé"), max_size=6), min_size=1)


def test_words_and_pairs_of_neighboring_words_count_once_per_title_and_rare_pairs_are_dropped():
    frequencies = DocumentFrequencies.from_titles(iter(_TITLES))
    assert frequencies.titles == 5
    assert frequencies.words == {"red": 2, "shoe": 3, "box": 2, "blue": 1, "hat": 1}
    # Neighboring words "shoe red" and "blue hat" are in one title each; a pair needs two.
    assert frequencies.pairs == {"red shoe": 2, "shoe box": 2}


def test_idf_is_the_log_of_the_number_of_titles_over_the_number_with_the_word_or_pair():
    frequencies = DocumentFrequencies.from_titles(_TITLES)
    assert frequencies.word_idf("shoe") == approx(log(5 / 3))
    assert frequencies.word_idf("hat") == approx(log(5))
    # A word in no title counts as if half a title had it.
    assert frequencies.word_idf("never") == approx(log(5 / 0.5))
    assert frequencies.pair_idf("red shoe") == approx(log(5 / 2))
    with pytest.raises(KeyError):
        frequencies.pair_idf("blue hat")


def test_the_known_pairs_of_a_text_are_listed_once_in_the_order_of_the_text():
    frequencies = DocumentFrequencies.from_titles(_TITLES)
    words = ["new", "shoe", "box", "red", "shoe", "box"]
    assert frequencies.pairs_of(words) == ["shoe box", "red shoe"]
    assert frequencies.pairs_of(["box", "shoe"]) == frequencies.pairs_of([]) == []


def test_a_repeated_word_is_a_pair_of_itself():
    frequencies = DocumentFrequencies.from_titles([["walla", "walla"]] * 2)
    assert frequencies.pairs == {"walla walla": 2}


def test_no_titles_are_an_error():
    with pytest.raises(ValueError, match="at least one title"):
        DocumentFrequencies.from_titles([])


@given(_TITLE_LISTS)
def test_numbers_are_those_of_a_direct_count(titles):
    frequencies = DocumentFrequencies.from_titles(titles)
    for word, number in frequencies.words.items():
        assert number == sum(word in title for title in titles)
    bigrams = [{f"{title[i]} {title[i + 1]}" for i in range(len(title) - 1)} for title in titles]
    for pair in set().union(*bigrams):
        number = sum(pair in title for title in bigrams)
        assert frequencies.pairs.get(pair, 1) == number


@given(_TITLE_LISTS)
def test_saved_numbers_are_read_back(titles):
    frequencies = DocumentFrequencies.from_titles(titles)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "document_frequencies.json"
        frequencies.save(path)
        assert DocumentFrequencies.load(path) == frequencies
        first = path.read_bytes()
        DocumentFrequencies.from_titles(titles[::-1]).save(path)
        assert path.read_bytes() == first


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"titles": 0}, "titles is 0; expected a number of titles"),
        (
            {"titles": 10**400},
            r"titles is 10+.*; expected a number of titles, 1 to 9007199254740992",
        ),
        ({"titles": True}, "titles is True"),
        ({"words": []}, r"words is \[\]; expected an object"),
        ({"words": {"red": 9}}, "the word 'red' is in 9 titles; expected 1 to 5"),
        ({"words": {"red": 1.0}}, "the word 'red' is in 1.0 titles"),
        ({"words": {"red shoe": 1}}, "the word 'red shoe' is empty or has a space"),
        ({"pairs": {"red": 2}}, "the pair 'red' is not two of the words"),
        ({"pairs": {"red hut": 2}}, "the pair 'red hut' is not two of the words"),
        ({"pairs": {"red shoe box": 2}}, "the pair 'red shoe box' is not two of the words"),
        ({"pairs": {"red shoe": 3}}, "the pair 'red shoe' is in 3 titles; expected 2, because its"),
        ({"pairs": {"red shoe": 1}}, "the pair 'red shoe' is in 1 titles; expected 2, because its"),
        (
            {"pairs": {"blue hat": 2}},
            "the pair 'blue hat' has a word that is in 1 title; expected only pairs that are in at "
            "least 2 titles",
        ),
        ({"pairs": {"red shoe": 4}, "words": {"red": 3, "shoe": 3}}, "titles; expected 2 to 3, be"),
        ({"titles": 1, "words": {"red": 2}, "pairs": {}}, r"is in 2 titles; expected 1\."),
        ({"more": 1}, "expected an object with pairs, titles, words"),
    ],
)
def test_impossible_numbers_are_one_line_errors(tmp_path, change, message):
    path = tmp_path / "document_frequencies.json"
    DocumentFrequencies.from_titles(_TITLES).save(path)
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | change), "utf-8")
    with pytest.raises(UserError, match=message) as error:
        DocumentFrequencies.load(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_or_damaged_file_is_a_one_line_error(tmp_path):
    path = tmp_path / "document_frequencies.json"
    with pytest.raises(UserError, match="does not exist"):
        DocumentFrequencies.load(path)
    for content in (b"{", b"\xff", b"[" * 100_000):
        path.write_bytes(content)
        with pytest.raises(UserError, match="is not JSON") as error:
            DocumentFrequencies.load(path)
        assert "\n" not in str(error.value)
