"""Vectors of texts, and sums of vectors over the words of titles."""

from __future__ import annotations

import numpy as np
import pytest
from pytest import approx

from dssm_tf.runtime import postings
from dssm_tf.runtime.maxsim import QUERY, TITLE, InvertedIndex
from dssm_tf.runtime.postings import Postings, TitleTerms
from dssm_tf.runtime.search_rules import read_rules
from dssm_tf.runtime.word_matches import word_matches
from tests.runtime.maxsim_models import QUERIES, TITLES, oracle, random_model


@pytest.mark.parametrize("block", [1, 3, 2_000])
def test_sums_of_vectors_are_those_of_each_title(block, monkeypatch):
    monkeypatch.setattr(postings, "_BLOCK", block)
    texts = [["red", "shoe"], [], ["shoe"], ["box", "red", "lid"], [], ["lid"], []]
    terms = TitleTerms.from_texts(texts)
    vectors = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    sums = Postings(terms.rows, terms.starts, 4).vector_sums(vectors)
    expected = [sum((vectors[terms.row_of[word]] for word in text), np.zeros(3)) for text in texts]
    assert sums == approx(np.array(expected), abs=1e-6)


def test_sums_over_no_titles_and_over_titles_without_words_are_empty_or_zero():
    for texts in ([], [[], []]):
        terms = TitleTerms.from_texts(texts)
        sums = Postings(terms.rows, terms.starts, 0).vector_sums(np.zeros((0, 3), np.float32))
        assert sums.tolist() == [[0, 0, 0]] * len(texts)


def test_text_vectors_are_those_of_the_definition_and_have_length_1():
    model = random_model()
    vectors = model.text_vectors
    for side in (QUERY, TITLE):
        for text in map(model.vocabulary.words, [*QUERIES, *TITLES]):
            expected = oracle(model, [text]).text_vector(text, side)
            received = vectors.of_text(text, side)
            assert received == approx(expected, abs=1e-5)
            assert np.linalg.norm(received) == approx(0 if not expected.any() else 1, abs=1e-5)


def test_the_parts_of_the_query_s_words_add_up_to_the_cosine():
    model = random_model()
    for query in map(model.vocabulary.words, QUERIES):
        for title in map(model.vocabulary.words, TITLES):
            definition = oracle(model, [query, title])
            matches = word_matches(model, query, title)
            parts = [part.contribution for part in matches.text_cosine]
            assert sum(parts) == approx(definition.cosine_part(query, title), abs=1e-9)
            assert matches.score == approx(definition.score(query, title), abs=1e-9)
            words = [part.word for part in matches.text_cosine]
            assert words == list(dict.fromkeys(query))


def test_a_model_without_text_vectors_has_no_such_part():
    model = random_model(text_cosine=0)
    assert (model.text_vectors, model.text_dimension) == (None, 0)
    assert word_matches(model, ["red"], ["red", "shoe"]).text_cosine == []


def test_rules_by_hand_do_not_change_text_vectors(tmp_path):
    model, query, titles = random_model(), ["red"], [["box", "shoe"]]
    path = tmp_path / "rules.tsv"
    path.write_text("never\tred\tbox\nnever\tred\tshoe\n")
    ruled = model.with_rules(read_rules(path, model.vocabulary))
    cosine_part = oracle(model, [query, *titles]).cosine_part(query, titles[0])
    # No word matches, so only the cosine is left.
    assert InvertedIndex.from_titles(ruled, titles).scores(query) == approx([cosine_part], abs=1e-6)
    assert word_matches(ruled, query, titles[0]).score == approx(cosine_part)
