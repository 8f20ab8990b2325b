"""Queries made from titles; training never makes a query of the same words from a title."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import tensorflow as tf

from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.data.query_words import QueryWords
from dssm_tf.data.texts import MISSPELLINGS, TextIndexer
from dssm_tf.data.title_queries import draw_title_queries, titles_with_all_words
from dssm_tf.text.rules import TextRules
from dssm_tf.text.typos import with_typo
from tests.clicks import catalog, write_data


def read(path, titles, **options) -> Preprocessed:
    return Preprocessed(write_data(path, [], corpus=titles, **options).path)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    # Titles of two words, of one and of none, one with repeated words, and a long one.
    others = ["red fox", "owl", "?!", "tick tock tick tock", "the long title of a very old book"]
    return read(tmp_path_factory.mktemp("titles") / "data", [*catalog(), *others])


@pytest.fixture(scope="module")
def queries(data):
    return draw_title_queries(data, 400, seed=0)


def words_of(data, query) -> list[str]:
    words, _ = data.distinct_words
    return [words[index] for index in query.words]


def is_subsequence(part: list[str], whole: list[str]) -> bool:
    remaining = iter(whole)
    return all(word in remaining for word in part)


def test_a_query_has_two_to_four_words_of_its_title_in_their_order_but_not_all(data, queries):
    texts = data.texts("titles")
    assert len(queries) > 150
    assert len({query.text for query in queries}) == len(queries)
    assert len({query.title for query in queries}) == len(queries)
    counts = Counter()
    for query in queries:
        words, title = words_of(data, query), data.vocabulary.words(texts[query.title])
        assert is_subsequence(words, title)
        assert len({*words}) == len(words) < len({*title})
        counts[len(words)] += 1
        assert query.text in (" ".join(words), with_typo(" ".join(words)))
    assert {*counts} <= {2, 3, 4}


def test_titles_with_fewer_than_three_different_words_have_no_query(data, queries):
    texts = data.texts("titles")
    drawn = {texts[query.title] for query in queries}
    assert "the long title of a very old book" in drawn
    assert drawn.isdisjoint({"red fox", "owl", "?!", "tick tock tick tock"})


def test_half_of_the_queries_have_neighboring_words_and_half_have_a_typing_error(data, queries):
    texts = data.texts("titles")
    with_typos = 0
    for number, query in enumerate(queries):
        words, title = words_of(data, query), data.vocabulary.words(texts[query.title])
        if number % 2 == 0:
            assert f" {' '.join(words)} " in f" {' '.join(title)} "
        with_typos += query.text != " ".join(words)
    # All colors but red, and all materials and animals but fox and owl, have four letters or more.
    assert with_typos == pytest.approx(len(queries) / 2, abs=5)


def test_no_query_consists_of_all_words_of_another_title(data):
    # "red fox" is a title, so it is not a query of "red wool fox"; "red owl" is not a title.
    pairs = {
        tuple(words_of(data, query))
        for seed in range(5)
        for query in draw_title_queries(data, 400, seed)
    }
    assert ("red", "owl") in pairs
    assert ("red", "fox") not in pairs


def test_fewer_queries_are_the_first_ones_and_a_seed_repeats(data, queries):
    assert draw_title_queries(data, 20, seed=0) == queries[:20]
    assert draw_title_queries(data, 400, seed=0) == queries
    assert draw_title_queries(data, 400, seed=1) != queries


def test_a_catalog_of_short_titles_has_no_queries(tmp_path):
    assert draw_title_queries(read(tmp_path / "data", ["red fox", "owl"]), 10, seed=0) == []


def test_titles_with_all_words_are_found_in_any_order_and_field(tmp_path):
    rules = TextRules(keep_accents=False, own_fields=2)
    titles = ["Red Wool Hat␟Acme", "acme hat␟red", "red hat", "hat acme wool", "red red hat acme"]
    data = read(tmp_path / "data", titles, rules=rules)
    ids = np.arange(len(titles))
    for query in draw_title_queries(data, 10, seed=0):
        words = {word.removeprefix("1␟") for word in words_of(data, query)}
        (matching_titles,) = titles_with_all_words(data, ids, [query])
        expected = [
            index
            for index, text in enumerate(data.texts("titles"))
            if words <= {*text.lower().replace("␟", " ").split()}
        ]
        assert matching_titles.tolist() == expected
        assert query.title in expected
        (among_the_last,) = titles_with_all_words(data, ids[2:], [query])
        assert among_the_last.tolist() == [index - 2 for index in expected if index >= 2]


def drawn_words(data, held_out, title: str, typos: float, neighboring: float) -> Counter:
    """The sets of words that 2,000 rows have of a title as a query, without typing errors."""
    texts = TextIndexer(data).build_tensors(misspellings=typos > 0)
    query_words = QueryWords(texts, typos, neighboring, held_out)
    index = int(data.find("titles", [title])[0]) + texts.first_title
    query = tf.fill([2000], index)
    random = tf.constant(np.random.default_rng(1).random((2000, query_words.width)))
    rows = query_words(query, tf.gather(texts.words, query), random).to_list()
    words, _ = data.distinct_words
    names = [*words, *(word for word in words for _ in range(MISSPELLINGS))]
    return Counter(frozenset(names[index] for index in row) for row in rows)


@pytest.mark.parametrize("fractions", [(0.0, 0.0), (0.9, 0.0), (0.3, 0.5)])
def test_a_title_is_never_a_query_with_the_words_of_a_held_out_query(tmp_path, fractions):
    data = read(tmp_path / "data", ["red wool hat", "blue wool hat", "blue silk tie long"])
    words, _ = data.distinct_words
    held_out = [[words.index("hat"), words.index("wool")], [words.index("tie"), words.index("red")]]
    forbidden = frozenset({"wool", "hat"})
    for title in ("red wool hat", "blue wool hat"):
        before, after = (drawn_words(data, sets, title, *fractions) for sets in ([], held_out))
        whole = frozenset(title.split())
        # Two of three words in a third of the rows, and a third of these pairs: a ninth of 2,000
        # is 222, standard deviation 14. Of neighbors, it is one of two pairs.
        assert before[forbidden] > 150
        # These rows now have all words of the title; the others are as before.
        assert after == before + Counter({whole: before[forbidden]}) - Counter(
            {forbidden: before[forbidden]}
        )
    other = "blue silk tie long"
    assert drawn_words(data, held_out, other, *fractions) == drawn_words(
        data, [], other, *fractions
    )
