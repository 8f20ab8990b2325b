"""The scores of all titles by an inverted index equal those of the formula."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from dssm_tf.runtime.maxsim import InvertedIndex, MaxSim, TitlePostings
from dssm_tf.text.document_frequencies import DocumentFrequencies
from dssm_tf.text.rules import FOLDED, TextRules
from dssm_tf.text.vocabulary import Vocabulary
from tests.runtime.maxsim_models import QUERIES, TITLES, any_text, oracle, random_model

TOLERANCE = 1e-5


def words_of(model: MaxSim, texts: list[str]) -> list[list[str]]:
    return [model.vocabulary.words(text) for text in texts]


def assert_equal_to_the_formula(model: MaxSim, queries: list[str], titles: list[str]) -> None:
    title_words, query_words = words_of(model, titles), words_of(model, queries)
    expected = oracle(model, [*title_words, *query_words])
    index = InvertedIndex.from_titles(model, title_words)
    for query in query_words:
        scores = index.scores(query)
        assert scores.dtype == np.float32
        assert scores == approx([expected.score(query, title) for title in title_words], abs=1e-5)


# --------------------------------------------------------------------------- the formula


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"threshold": 0.0},
        {"threshold": 0.9, "dimension": 16},
        {"rules": replace(FOLDED, hash_buckets=5)},
        {"rules": replace(FOLDED, max_words=2, max_letters=4)},
        {"rules": TextRules(keep_accents=True), "dimension": 1},
        {"text_cosine": 0.0},
        {"text_cosine": 20.0},
    ],
)
def test_scores_equal_the_formula(options):
    assert_equal_to_the_formula(random_model(**options), QUERIES, TITLES)


@settings(max_examples=60)
@given(
    corpus=st.lists(any_text, min_size=1, max_size=8),
    titles=st.lists(any_text, max_size=8),
    queries=st.lists(any_text, max_size=3),
    seed=st.integers(0, 99),
)
def test_scores_of_any_texts_equal_the_formula(corpus, titles, queries, seed):
    assert_equal_to_the_formula(random_model(corpus, seed=seed), queries, titles)


def test_words_of_fields_have_their_own_ids_and_neighbors_cross_fields():
    rules = replace(FOLDED, own_fields=2)
    titles = ["red shoe␟acme", "shoe␟acme", "acme shoe", "red␟shoe acme"]
    model = random_model(titles, rules=rules)
    assert model.frequencies.pairs == {"shoe 1␟acme": 2}
    assert_equal_to_the_formula(model, ["acme shoe", "shoe␟acme"], titles)


def with_one_id_per_word(rows: dict[str, list[float]], titles: list[list[str]]) -> MaxSim:
    """A model in which each word has one row of the kernel, and no trigram has one."""
    kernel = np.array([[0.0, 0.0], *rows.values()], np.float32)
    return MaxSim(
        Vocabulary([f"#{word}#" for word in rows], FOLDED),
        DocumentFrequencies.from_titles(titles),
        kernel,
        np.zeros((len(kernel), 2), np.float32),
        np.array([1, 0], np.float32),
        np.zeros(2, np.float32),
        0.2,
    )


def test_the_similarity_of_a_query_word_is_that_of_its_best_title_word():
    rows = {"red": [2.0, 0.0], "crimson": [0.8, 0.6], "pink": [3.0, 4.0], "box": [-1.0, 0.0]}
    titles = [["pink"], ["crimson", "pink"], ["box"], ["pink", "crimson", "box", "red"]]
    model = with_one_id_per_word(rows, titles)
    # Of one query word the query side is its similarity. Cosines with red: pink .6, crimson .8,
    # box -1, red 1. Similarities: (.6 - .2) / .8 = .5, (.8 - .2) / .8 = .75, 0, 1.
    assert InvertedIndex.from_titles(model, titles).scores(["red"]) == approx([0.5, 0.75, 0.0, 1.0])


def test_a_title_word_counts_once_if_two_query_words_are_equally_similar():
    titles = [["red"], ["box", "red"]]
    model = with_one_id_per_word({"red": [1, 0], "crimson": [1, 0], "box": [0, 1]}, titles)
    model.side_weights[:] = 0, 1
    # Weights: softplus(ln(2 / 2) / 5) = ln(2) of red, softplus(ln(2) / 5) of box.
    red, box = np.log(2), np.log1p(np.exp(np.log(2) / 5))
    scores = InvertedIndex.from_titles(model, titles).scores(["red", "crimson"])
    assert scores == approx([1, red / (red + box)])


def test_a_word_without_ids_matches_no_word_but_has_weight():
    titles = [["red", "qqq"], ["qqq"]]
    model = with_one_id_per_word({"red": [1.0, 0.0]}, titles)
    index = InvertedIndex.from_titles(model, titles)
    assert index.scores(["qqq"]).tolist() == [0.0, 0.0]
    # softplus(ln(2) / 5) of red, in one of two titles; softplus(0) of qqq, in both.
    red, unknown = np.log1p(np.exp(np.log(2) / 5)), np.log(2)
    assert index.scores(["red", "qqq"]) == approx([red / (red + unknown), 0])


def test_texts_without_words_have_score_zero():
    model = random_model()
    index = InvertedIndex.from_titles(model, [["red"], [], ["shoe", "box"]])
    assert index.scores(["red", "shoe"])[1] == 0
    assert index.scores([]).tolist() == [0.0, 0.0, 0.0]
    assert InvertedIndex.from_titles(model, []).scores(["red"]).shape == (0,)
    assert InvertedIndex.from_titles(model, [[], []]).scores(["red"]).tolist() == [0.0, 0.0]


# --------------------------------------------------------------------------- laws


def test_a_repeated_word_counts_once():
    model = random_model()
    once, twice = [["red", "shoe"]], [["red", "shoe", "shoe"]]
    model.frequencies.pairs.clear()
    for query in (["red", "box"], ["red", "box", "red", "box"]):
        scores = [
            InvertedIndex.from_titles(model, titles).scores(query) for titles in (once, twice)
        ]
        assert scores[0] == approx(scores[1])
        assert scores[0] == approx(InvertedIndex.from_titles(model, once).scores(["red", "box"]))


def test_the_order_of_words_counts_only_by_pairs():
    model = random_model()
    index = InvertedIndex.from_titles(model, [["red", "shoe"], ["shoe", "red"]])
    in_order, reverse = index.scores(["red", "shoe"])
    assert in_order > reverse
    model.frequencies.pairs.clear()
    in_order, reverse = InvertedIndex.from_titles(model, [["red", "shoe"], ["shoe", "red"]]).scores(
        ["red", "shoe"]
    )
    assert in_order == approx(reverse)


def test_scores_depend_neither_on_other_titles_nor_on_earlier_queries():
    model = random_model()
    titles = words_of(model, TITLES)
    together = InvertedIndex.from_titles(model, titles)
    for query in words_of(model, QUERIES * 2):
        scores = together.scores(query)
        alone = [InvertedIndex.from_titles(model, [title]).scores(query)[0] for title in titles]
        assert scores == approx(alone, abs=1e-6)
        reversed_titles = InvertedIndex.from_titles(model, titles[::-1])
        assert scores == approx(reversed_titles.scores(query)[::-1], abs=1e-6)


def test_scores_are_at_most_the_sum_of_the_sides_and_a_title_reaches_it_for_itself():
    model = random_model(text_cosine=0)
    titles = [title for title in words_of(model, TITLES) if title and "虎" not in title]
    scores = np.stack([InvertedIndex.from_titles(model, titles).scores(title) for title in titles])
    assert scores.min() >= 0
    assert scores.max() <= 1.3 + 1e-5
    with_ids = [all(map(model.vocabulary.look_up, title)) for title in titles]
    assert scores.diagonal()[with_ids] == approx(1.3)
    assert any(with_ids)


@pytest.mark.parametrize("cached_words", [1, 7, 50_000])
def test_the_size_of_the_cache_changes_nothing(cached_words):
    model = random_model(cached_words=cached_words)
    assert_equal_to_the_formula(model, [query for query in QUERIES if len(query) < 5], TITLES)


def test_several_threads_can_use_one_index():
    model = random_model(cached_words=8)
    titles = words_of(model, TITLES)
    index = InvertedIndex.from_titles(model, titles)
    rng = np.random.default_rng(0)
    queries = [list(rng.choice(titles[1] + titles[4] + ["new"], 3)) for _ in range(300)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(index.scores, queries))
    one_by_one = InvertedIndex.from_titles(random_model(), titles)
    for query, scores in zip(queries, results, strict=True):
        assert scores == approx(one_by_one.scores(query), abs=1e-6)


def test_indexes_of_two_models_share_the_postings_of_titles():
    titles = [title.split() for title in TITLES]
    first, second = random_model(seed=0), random_model(seed=1)
    postings = TitlePostings.from_titles(titles, first.frequencies)
    query = ["red", "shoes"]
    before = InvertedIndex(first, postings).scores(query)
    other = InvertedIndex(second, postings).scores(query)
    assert np.array_equal(other, InvertedIndex.from_titles(second, titles).scores(query))
    assert not np.array_equal(other, before)
    assert np.array_equal(InvertedIndex(first, postings).scores(query), before)


def test_a_replaced_index_is_freed_without_the_garbage_collector():
    gc.collect()
    gc.disable()
    try:
        index = InvertedIndex.from_titles(random_model(), [["red", "shoe"]])
        index.scores(["red"])
        reference = weakref.ref(index)
        del index
        assert reference() is None
    finally:
        gc.enable()
