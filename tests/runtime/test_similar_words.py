"""The similar catalog words of a word."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from dssm_tf.runtime.similar_words import SimilarWords
from tests.runtime.maxsim_models import TITLES, example_model, oracle, random_model

MODEL = random_model()
WORDS = sorted({word for title in TITLES for word in MODEL.vocabulary.words(title)})
_QUERY_WORDS = st.sampled_from([*WORDS, "shoez", "redd", "runing", "qq", "虎"])


def as_dict(similar: SimilarWords, words: list[str], word: str) -> dict[str, float]:
    rows, similarities = similar.of_word(word)
    return dict(zip([words[row] for row in rows], similarities.tolist(), strict=True))


def test_similar_words_of_the_worked_example():
    words = ["box", "crimson", "red", "shoe"]
    similar = SimilarWords(example_model(), words)
    # The cosine of red and crimson is .8, so their similarity is (.8 - .2) / .8 = .75.
    assert as_dict(similar, words, "red") == {"red": 1.0, "crimson": approx(0.75)}
    # lid is in no title. Its vector is (0, -1), at right angles to red and opposite to shoe.
    assert as_dict(similar, words, "lid") == {}
    assert as_dict(similar, words, "never seen") == {}


@settings(max_examples=60, deadline=None)
@given(word=_QUERY_WORDS, limit=st.sampled_from([None, 1, 2, 5, 100]))
def test_similar_words_are_the_most_similar_ones_by_the_formula(word, limit):
    expected = oracle(MODEL, [[*WORDS, word]])
    similarities = [expected.similarity(word, other) for other in WORDS]
    best = sorted((s for s in similarities if s > 1e-6), reverse=True)[:limit]
    rows, received = SimilarWords(MODEL, WORDS, limit).of_word(word)
    assert received.dtype == np.float32
    assert received == approx(best, abs=1e-5)
    assert received == approx([similarities[row] for row in rows], abs=1e-5)
    assert len(set(rows.tolist())) == len(rows)


def test_a_word_of_the_catalog_comes_first_in_its_own_list():
    for limit in (1, 3, None):
        similar = SimilarWords(MODEL, WORDS, limit)
        for row, word in enumerate(WORDS):
            rows, similarities = similar.of_word(word)
            assert len(rows) == 0 or (rows[0], similarities[0]) == (row, 1.0)
            assert len(rows) > 0 or not MODEL.words([word]).vectors.any()


@pytest.mark.parametrize("limit", [2, None])
def test_each_of_several_words_has_the_result_of_a_single_call(limit):
    words = [*WORDS, "shoez", "qq", *WORDS * 3]  # several blocks
    similar = SimilarWords(MODEL, WORDS, limit)
    for word, (rows, similarities) in zip(words, similar.of_each(words), strict=True):
        expected_rows, expected = similar.of_word(word)
        assert rows.tolist() == expected_rows.tolist()
        np.testing.assert_array_equal(similarities, expected)


def test_equally_similar_words_are_in_the_order_of_their_rows():
    vectors = np.repeat(MODEL.words(["red"]).vectors, 40, axis=0)
    words = [f"word{row}" for row in range(40)]
    rows, similarities = SimilarWords(MODEL, words, 5, vectors).of_word("red")
    assert rows.tolist() == [0, 1, 2, 3, 4]
    assert similarities == approx(np.ones(5))
    words[30] = "red"
    assert SimilarWords(MODEL, words, 3, vectors).of_word("red")[0].tolist() == [30, 0, 1]


def test_a_word_at_the_threshold_is_not_similar():
    # The cosine with red, (1, 0), is 1e-7 below the threshold, or above.
    vectors = np.array([[0.2 - 1e-7, 0.96**0.5], [0.2 + 1e-7, 0.96**0.5]], np.float32)
    rows, similarities = SimilarWords(example_model(), ["a", "b"], None, vectors).of_word("red")
    assert rows.tolist() == [1]
    assert similarities == approx([1.25e-7], rel=0.2)


def test_similarities_do_not_depend_on_the_other_words():
    everything = as_dict(SimilarWords(MODEL, WORDS, None), WORDS, "shoez")
    assert len(everything) > 2
    for word, similarity in everything.items():
        assert as_dict(SimilarWords(MODEL, [word], None), [word], "shoez") == {word: similarity}


@pytest.mark.parametrize("limit", [16, None])
def test_a_catalog_without_words_has_no_similar_words(limit):
    rows, similarities = SimilarWords(MODEL, [], limit).of_word("red")
    assert rows.shape == similarities.shape == (0,)


def test_several_threads_can_use_one_object():
    similar = SimilarWords(MODEL, WORDS, 4)
    words = [*WORDS, "shoez", "redd"] * 20
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(similar.of_word, words))
    for word, (rows, similarities) in zip(words, results, strict=True):
        expected_rows, expected = SimilarWords(MODEL, WORDS, 4).of_word(word)
        assert rows.tolist() == expected_rows.tolist()
        assert similarities.tolist() == expected.tolist()
