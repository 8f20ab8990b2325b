"""Titles as queries by some of their words, typing errors, and which titles a pass reads."""

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
from dssm_tf.data.texts import SPELLINGS, Numbers
from dssm_tf.text.typos import with_typo
from tests.clicks import Click, click_log, rows_of, write_data

LONG = "seven small words of a long title"
SHARE = 0.3
SIZE = 16


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A log with a title of seven words, one of a word and one of none."""
    log = [*click_log(), Click("a fox", LONG), Click("an owl", "owl"), Click("nothing", "?!")]
    return Preprocessed(write_data(tmp_path_factory.mktemp("t") / "data", log).path)


def spoken(data, query: str | None, title: str | None, typos: float, rows: int = 2000):
    """What so many rows of one text say, as words, `~` before a variant."""
    texts = Numbers(data).texts(typos=typos > 0)
    kind, text = ("queries", query) if title is None else ("titles", title)
    number = int(data.find(kind, [text])[0]) + (0 if title is None else texts.first_title)
    words = QueryWords(texts, typos)
    chance = np.random.default_rng(1).random((rows, words.width))
    query = tf.fill([rows], number)
    found = words(query, tf.gather(texts.words, query), tf.constant(chance)).to_list()
    names = data.distinct_words[0]

    def name(number: int) -> str:
        if number < len(names):
            return names[number]
        word, edit = divmod(number - len(names), SPELLINGS)
        variant = with_typo(names[word], edit + 1)
        assert texts.ngrams[number].numpy().tolist() == list(data.vocabulary.look_up(variant))
        return f"~{names[word]}"

    return [[name(number) for number in row] for row in found]


def test_a_title_is_a_query_by_two_to_four_of_its_words_in_their_order(data):
    found = spoken(data, None, LONG, 0.0)
    order = LONG.split()
    assert all(row == [word for word in order if word in row] for row in found)
    counts = Counter(map(len, found))
    assert {count: many / len(found) for count, many in counts.items()} == {
        2: approx(1 / 3, abs=0.04), 3: approx(1 / 3, abs=0.04), 4: approx(1 / 3, abs=0.04)
    }  # fmt: skip
    # Three of seven words on average: each word is in three sevenths of the rows.
    words = Counter(word for row in found for word in row)
    assert {word: many / len(found) for word, many in words.items()} == dict.fromkeys(
        order, approx(3 / 7, abs=0.04)
    )
    assert spoken(data, None, "owl", 0.0) == [["owl"]] * len(found)


def test_a_query_of_the_log_keeps_its_words(data):
    assert spoken(data, "a fox", None, 0.0, rows=20) == [["a", "fox"]] * 20


def test_a_share_of_the_queries_has_its_longest_word_misspelt(data):
    for found, longest in (
        (spoken(data, "nothing", None, SHARE), {"nothing"}),
        (spoken(data, None, LONG, SHARE), set(LONG.split())),
    ):
        wrong = [row for row in found if any(word[0] == "~" for word in row)]
        assert len(wrong) / len(found) == approx(SHARE, abs=0.04)
        for row in wrong:
            (misspelt,) = (word[1:] for word in row if word[0] == "~")
            assert misspelt in longest
            assert all(len(misspelt) >= len(word) for word in row if word[0] != "~")


def passed(data, drawn: int, passes: int, typos: float = 0.0) -> list[list]:
    """The rows of each pass over the clicks and so many titles."""
    texts = Numbers(data).texts(typos=typos > 0)
    clicks = click_rows(data.splits["train"], 0, "log", SIZE)
    source = {"train": clicks, "always": title_rows(texts, clicks, drawn)}
    one = Batches(texts, (source,), typos=typos)
    found = [rows_of(*element) for element in one.epochs(3, 0, passes)]
    return [
        [row for step in found[n * one.steps : (n + 1) * one.steps] for row in step]
        for n in range(passes)
    ]


def test_each_pass_reads_all_clicks_and_other_titles_of_the_pool(data):
    drawn, pairs = 10, data.count("train")
    epochs = passed(data, drawn, 6)
    count = len(data.texts("titles")) - 1  # without the title that has no word
    read = []
    for rows in epochs:
        learned = [row for row in rows if row.weight > 0]
        assert len(learned) == pairs + drawn
        assert all(len(row.query) <= 4 for row in learned)  # titles have up to seven words
        read.append(Counter(row.clicked for row in learned))
        assert np.mean([row.weight for row in rows]) == approx(1, rel=1e-5)
    clicked = Counter(row.clicked for row in passed(data, 0, 1)[0] if row.weight > 0)
    assert not set.intersection(*(set(one - clicked) for one in read))
    # More than there are: each once.
    ((*rows,),) = passed(data, 10 * count, 1)
    assert sum(row.weight > 0 for row in rows) == pairs + count


def test_passes_differ_in_words_a_seed_repeats_them_and_no_title_is_its_own_negative(data):
    first, second = passed(data, 1000, 2, SHARE)
    assert passed(data, 1000, 2, SHARE) == [first, second]
    assert sorted(row.query for row in first) != sorted(row.query for row in second)
    assert all(row.clicked not in row.rivals for row in first + second)


def test_in_the_order_of_the_rows_nothing_is_misspelt(data):
    texts = Numbers(data).texts(typos=True)
    source = {"train": click_rows(data.splits["train"], 0, "log", SIZE)}
    plain, misspelt, shuffled = (
        [rows_of(*element) for element in Batches(texts, (source,), typos=typos).epochs(seed, 0, 1)]
        for typos, seed in ((0.0, None), (1.0, None), (1.0, 3))
    )
    assert misspelt == plain
    queries = [
        sorted(row.query for step in steps for row in step if row.weight > 0)
        for steps in (plain, shuffled)
    ]
    assert queries[0] != queries[1]


def test_words_that_texts_hold_twice_have_rows_below_the_trigrams(data):
    whole = data.with_whole_words()
    texts = [text for kind in ("queries", "titles") for text in data.texts(kind)]
    counts = Counter(word for text in texts for word in data.vocabulary.words(text))
    expected = {f"#{word}#" for word, count in counts.items() if count > 1 and len(word) > 1}
    known = data.vocabulary.ngrams
    assert whole.vocabulary.ngrams[: len(known)] == known
    assert {*whole.vocabulary.ngrams[len(known) :]} == expected
    assert "#fox#" in expected
    assert "#seven#" not in expected
    number = 1 + whole.vocabulary.ngrams.index("#fox#")
    assert whole.vocabulary.ngram_ids("fox") == (*data.vocabulary.ngram_ids("fox"), number)
    words, ngrams = whole.distinct_words
    assert ngrams[words.index("fox")].as_py() == [*whole.vocabulary.ngram_ids("fox")]
    assert whole.spec.fingerprint == whole.vocabulary.fingerprint != data.spec.fingerprint
