"""The parts of a maxsim score: what matches what, and the worked example of docs/maxsim.md."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from dssm_tf.runtime.maxsim import InvertedIndex, MaxSim
from dssm_tf.runtime.word_matches import PairMatch, WordMatch, word_matches
from dssm_tf.text.document_frequencies import DocumentFrequencies
from dssm_tf.text.rules import FOLDED
from dssm_tf.text.vocabulary import Vocabulary
from tests.runtime.maxsim_models import example_model, oracle, random_model

PAGE = Path(__file__).resolve().parents[2] / "docs" / "maxsim.md"
_TEXTS = st.lists(st.sampled_from(["red", "reds", "shoe", "box", "ed", "qqq"]), max_size=6)


@pytest.fixture
def example() -> MaxSim:
    return example_model()


TITLE_WEIGHT = 0.3  # of the title side of the example model; the query side has 1
QUERY, TITLE = ["crimson", "shoe", "box"], ["red", "shoe", "box", "lid"]


def test_the_worked_example_has_these_parts(example):
    matches = word_matches(example, QUERY, TITLE)
    # Weights, softplus(idf / 5): crimson softplus(ln(2000) / 5) = 1.718, shoe .950, box 1.159,
    # red 1.037, lid 1.357. The pair's is softplus(ln(100) / 5 - 2) = .293; -2 is the bias of pairs.
    # cos(crimson, red) = .8 and the threshold .2, so the similarity is (.8 - .2) / (1 - .2) = .75.
    query_total = 1.7180 + 0.9497 + 1.1590 + 0.2926
    title_total = 1.0369 + 0.9497 + 1.1590 + 1.3573 + 0.2926
    assert [match[:3] for match in matches.query] == [
        ("crimson", "red", approx(0.75)), ("shoe", "shoe", 1), ("box", "box", 1),
    ]  # fmt: skip
    assert [match.contribution for match in matches.query] == approx(
        [1.7180 * 0.75 / query_total, 0.9497 / query_total, 1.1590 / query_total], abs=1e-4
    )
    assert [match[:3] for match in matches.title] == [
        ("red", "crimson", approx(0.75)), ("shoe", "shoe", 1), ("box", "box", 1), ("lid", None, 0),
    ]  # fmt: skip
    assert [match.contribution / TITLE_WEIGHT for match in matches.title] == approx(
        [1.0369 * 0.75 / title_total, 0.9497 / title_total, 1.1590 / title_total, 0], abs=1e-4
    )
    pair = 0.2926 / query_total + TITLE_WEIGHT * 0.2926 / title_total
    assert matches.pairs == [PairMatch("shoe box", approx(pair, abs=1e-4))]
    assert matches.score == approx(1.0946, abs=1e-4)


def test_the_page_has_the_numbers_of_the_worked_example(example):
    page = PAGE.read_text("utf-8")
    query, title = example.exact_words(QUERY), example.exact_words(TITLE)
    pair = example.pair_weights(["shoe box"])[0, 0]
    rows = []
    for side, (words, features) in enumerate(((QUERY, query), (TITLE, title))):
        parts = word_matches(example, QUERY, TITLE)[side]
        for word, weight, part in zip(words, features.weights[:, side], parts, strict=True):
            idf = example.frequencies.word_idf(word)
            rows.append(
                f"| {word} | {idf:.3f} | {weight:.3f} | {part.matched_word or '-'} | "
                f"{part.similarity:g} | {weight * part.similarity:.3f} |"
            )
        rows.append(f"| shoe box | 4.605 | {pair:.3f} | shoe box | 1 | {pair:.3f} |")
    assert [row for row in rows if row not in page] == []
    assert f"= {word_matches(example, QUERY, TITLE).score:.3f}" in page


@given(corpus=st.lists(_TEXTS, min_size=1, max_size=5), query=_TEXTS, title=_TEXTS)
def test_contributions_add_up_to_the_score(corpus, query, title):
    model = random_model(map(" ".join, corpus))
    matches = word_matches(model, query, title)
    parts = [part.contribution for group in matches for part in group]
    assert sum(parts) == approx(matches.score)
    assert matches.score == approx(oracle(model, [query, title]).score(query, title), abs=1e-12)
    assert matches.score == approx(
        InvertedIndex.from_titles(model, [title]).scores(query)[0], abs=1e-5
    )
    assert [match.word for match in matches.query] == list(dict.fromkeys(query))
    assert [match.word for match in matches.title] == list(dict.fromkeys(title))
    for match in (*matches.query, *matches.title):
        assert match.contribution == match.weight * match.similarity
        assert (match.matched_word is None) == (match.similarity == 0)


def test_of_equally_similar_words_the_first_is_the_match():
    # "aab", "aaab" and "aaaab" contain both trigrams of the vocabulary, which has no whole words.
    # So their vectors are equal.
    vocabulary = Vocabulary(["#aa", "ab#"], FOLDED)
    model = MaxSim(
        vocabulary,
        DocumentFrequencies.from_titles([["aaab", "aaaab"]]),
        kernel=np.random.default_rng(0).normal(size=(3, 5)),
        importance=np.zeros((3, 2)),
        side_weights=np.ones(2),
        pair_bias=np.zeros(2),
        threshold=0.2,
    )
    for title in (["box", "aaab", "aaaab"], ["aaaab", "box", "aaab"]):
        (match,) = word_matches(model, ["aab"], title).query
        assert match.matched_word == next(word for word in title if word != "box")
        assert match.similarity == approx(1)


def test_a_text_without_words_matches_nothing():
    model = random_model()
    matches = word_matches(model, [], ["red", "shoe"])
    assert (matches.query, matches.pairs, matches.score) == ([], [], 0)
    assert [match[:3] for match in matches.title] == [("red", None, 0), ("shoe", None, 0)]
    assert isinstance(matches.title[0], WordMatch)
