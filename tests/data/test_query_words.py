"""Titles as queries by some of their words, typing errors, and the titles of an epoch."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import tensorflow as tf
from pytest import approx

from dssm_tf.data.batches import Batches
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.data.query_words import QueryWords
from dssm_tf.data.rows import click_rows, title_rows
from dssm_tf.data.texts import MISSPELLINGS, TextIndexer
from dssm_tf.text.typos import with_typo
from tests.clicks import Click, click_log, rows_of, write_data

LONG_TITLE = "seven small words of a long title"
TYPO_FRACTION = 0.3
SIZE = 16


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A log that also has titles of seven words, of one word and of none."""
    log = [*click_log(), Click("a fox", LONG_TITLE), Click("an owl", "owl"), Click("nothing", "?!")]
    return Preprocessed(write_data(tmp_path_factory.mktemp("t") / "data", log).path)


def sampled_words(data, query: str | None, title: str | None, typos: float, rows: int = 2000):
    """The words of `rows` rows with the same query or title; `~` marks a misspelled word."""
    texts = TextIndexer(data).build_tensors(misspellings=typos > 0)
    kind, text = ("queries", query) if title is None else ("titles", title)
    index = int(data.find(kind, [text])[0]) + (0 if title is None else texts.first_title)
    query_words = QueryWords(texts, typos)
    random = np.random.default_rng(1).random((rows, query_words.width))
    query = tf.fill([rows], index)
    sampled = query_words(query, tf.gather(texts.words, query), tf.constant(random)).to_list()
    words = data.distinct_words[0]

    def word_at(index: int) -> str:
        if index < len(words):
            return words[index]
        word, edit = divmod(index - len(words), MISSPELLINGS)
        variant = with_typo(words[word], edit + 1)
        assert texts.ngrams[index].numpy().tolist() == list(data.vocabulary.look_up(variant))
        return f"~{words[word]}"

    return [[word_at(index) for index in row] for row in sampled]


def test_a_title_as_a_query_keeps_two_to_four_of_its_words_in_their_order(data):
    queries = sampled_words(data, None, LONG_TITLE, 0.0)
    order = LONG_TITLE.split()
    assert all(row == [word for word in order if word in row] for row in queries)
    counts = Counter(map(len, queries))
    assert {count: rows / len(queries) for count, rows in counts.items()} == {
        2: approx(1 / 3, abs=0.04), 3: approx(1 / 3, abs=0.04), 4: approx(1 / 3, abs=0.04)
    }  # fmt: skip
    # Three of seven words on average: each word is in three sevenths of the rows.
    words = Counter(word for row in queries for word in row)
    assert {word: rows / len(queries) for word, rows in words.items()} == dict.fromkeys(
        order, approx(3 / 7, abs=0.04)
    )
    assert sampled_words(data, None, "owl", 0.0) == [["owl"]] * len(queries)


def test_a_query_of_the_log_keeps_its_words(data):
    assert sampled_words(data, "a fox", None, 0.0, rows=20) == [["a", "fox"]] * 20


def test_a_fraction_of_the_queries_has_a_typing_error_in_the_longest_word(data):
    for queries, longest_words in (
        (sampled_words(data, "nothing", None, TYPO_FRACTION), {"nothing"}),
        (sampled_words(data, None, LONG_TITLE, TYPO_FRACTION), set(LONG_TITLE.split())),
    ):
        wrong = [row for row in queries if any(word[0] == "~" for word in row)]
        assert len(wrong) / len(queries) == approx(TYPO_FRACTION, abs=0.04)
        for row in wrong:
            (misspelled,) = (word[1:] for word in row if word[0] == "~")
            assert misspelled in longest_words
            assert all(len(misspelled) >= len(word) for word in row if word[0] != "~")


@pytest.mark.parametrize("neighboring", [0.0, 1.0])
def test_a_title_that_repeats_a_word_is_never_a_query_of_a_held_out_query_s_words(
    tmp_path, neighboring
):
    title, forbidden = "red hat red wool hat hat", {"red", "hat"}
    path = write_data(tmp_path / "data", [], corpus=[title, "blue silk tie"]).path
    data = Preprocessed(path)
    texts, words = TextIndexer(data).build_tensors(), data.distinct_words[0]
    query = tf.fill([2000], int(data.find("titles", [title])[0]) + texts.first_title)

    def draw(held_out):
        sets = [[words.index(word) for word in sorted(query)] for query in held_out]
        query_words = QueryWords(texts, 0.0, neighboring, sets)
        random = tf.constant(np.random.default_rng(1).random((2000, query_words.width)))
        draw_rows = tf.function(query_words)  # in a graph, as datasets call it
        rows = draw_rows(query, tf.gather(texts.words, query), random).to_list()
        return [[words[index] for index in row] for row in rows]

    before, after = draw([]), draw([forbidden])
    assert Counter({*row} == forbidden and len(row) > 2 for row in before)[True] > 100
    # A row of these words now has all words of the title; the others are as before.
    assert after == [title.split() if {*row} == forbidden else row for row in before]


def rows_by_epoch(data, titles: int, epochs: int, typos: float = 0.0) -> list[list]:
    """The rows of each epoch, with the clicks and `titles` titles as queries."""
    texts = TextIndexer(data).build_tensors(misspellings=typos > 0)
    clicks = click_rows(data.splits["train"], 0, "log", SIZE)
    source = {"train": clicks, "always": title_rows(texts, clicks, titles)}
    batches = Batches(texts, (source,), typos=typos)
    steps = [rows_of(*element) for element in batches.epochs(3, 0, epochs)]
    count = batches.steps
    return [
        [row for step in steps[epoch * count : (epoch + 1) * count] for row in step]
        for epoch in range(epochs)
    ]


def test_each_epoch_has_all_clicks_and_a_new_sample_of_titles(data):
    titles, pairs = 10, data.count("train")
    epochs = rows_by_epoch(data, titles, 6)
    count = len(data.texts("titles")) - 1  # without the title that has no word
    clicked_by_epoch = []
    for rows in epochs:
        real_rows = [row for row in rows if row.weight > 0]
        assert len(real_rows) == pairs + titles
        assert all(len(row.query) <= 4 for row in real_rows)  # titles have up to seven words
        clicked_by_epoch.append(Counter(row.clicked for row in real_rows))
        assert np.mean([row.weight for row in rows]) == approx(1, rel=1e-5)
    log_only = Counter(row.clicked for row in rows_by_epoch(data, 0, 1)[0] if row.weight > 0)
    assert not set.intersection(*(set(clicked - log_only) for clicked in clicked_by_epoch))
    # If more are asked for than exist, each title is used once.
    (rows,) = rows_by_epoch(data, 10 * count, 1)
    assert sum(row.weight > 0 for row in rows) == pairs + count


def test_words_differ_by_epoch_and_repeat_by_seed_and_no_title_is_its_own_negative(data):
    first, second = rows_by_epoch(data, 1000, 2, TYPO_FRACTION)
    assert rows_by_epoch(data, 1000, 2, TYPO_FRACTION) == [first, second]
    assert sorted(row.query for row in first) != sorted(row.query for row in second)
    assert all(row.clicked not in row.negatives for row in first + second)


def test_unshuffled_rows_have_no_typing_errors(data):
    texts = TextIndexer(data).build_tensors(misspellings=True)
    source = {"train": click_rows(data.splits["train"], 0, "log", SIZE)}
    plain, unshuffled, shuffled = (
        [rows_of(*element) for element in Batches(texts, (source,), typos=typos).epochs(seed, 0, 1)]
        for typos, seed in ((0.0, None), (1.0, None), (1.0, 3))
    )
    assert unshuffled == plain
    queries = [
        sorted(row.query for step in steps for row in step if row.weight > 0)
        for steps in (plain, shuffled)
    ]
    assert queries[0] != queries[1]


def test_words_that_occur_twice_have_rows_after_those_of_the_trigrams(data):
    extended = data.with_whole_words()
    texts = [text for kind in ("queries", "titles") for text in data.texts(kind)]
    counts = Counter(word for text in texts for word in data.vocabulary.words(text))
    expected = {f"#{word}#" for word, count in counts.items() if count > 1 and len(word) > 1}
    known = data.vocabulary.ngrams
    assert extended.vocabulary.ngrams[: len(known)] == known
    assert {*extended.vocabulary.ngrams[len(known) :]} == expected
    assert "#fox#" in expected
    assert "#seven#" not in expected
    row = 1 + extended.vocabulary.ngrams.index("#fox#")
    assert extended.vocabulary.ngram_ids("fox") == (*data.vocabulary.ngram_ids("fox"), row)
    words, ngrams = extended.distinct_words
    assert ngrams[words.index("fox")].as_py() == [*extended.vocabulary.ngram_ids("fox")]
    assert extended.spec.fingerprint == extended.vocabulary.fingerprint != data.spec.fingerprint
