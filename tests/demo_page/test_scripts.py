"""The scripts of the page compute the same words and scores as the package, in Chromium."""

from __future__ import annotations

import json
import sys
from random import Random

import numpy as np
import pytest
from pytest import approx

from dssm_tf.common.rounding import rounded_parts
from dssm_tf.evaluation.ranking import tie_key
from dssm_tf.text.characters import TABLE
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import NGRAM_KINDS
from dssm_tf.text.typos import with_typo
from tests.browser import Browser
from tests.demo_page.pages import HOSTILE, PAGE_TITLES, letters_model, page_of, ranker_of
from tests.runtime.maxsim_models import example_model

TOLERANCE = 1e-4
"""The largest difference of a score, as the page says."""

QUERIES = [
    "red shoe", "shoe red red shoe", "blue ribbon box", "walla walla", "RED Shoe, Box!",
    "alesund", "ÅLESUND norvay", "A\u030alesund", "東京", "東京タワ", "ﾀﾜｰ", "虎", "xq 7", "", "  ",
    "?!", "жук", "zzzz", "__proto__ constructor", "a", "ab", "shoe box", HOSTILE, "x" * 300,
    "box " * 100,
]  # fmt: skip
MISSPELLED = [with_typo(title, number) for title in PAGE_TITLES for number in range(3)]


@pytest.fixture(scope="module")
def titles() -> list[str]:
    return sorted(PAGE_TITLES, key=tie_key)


@pytest.fixture(scope="module", params=[0.5, 0.0], ids=["text vectors", "no text vectors"])
def ranker(request):
    model = letters_model(text_cosine=request.param)
    return ranker_of(model, lambda title: -len(title) / 50)


@pytest.fixture(scope="module")
def browser(ranker, titles, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(page_of(ranker, titles), "utf-8")
    with Browser() as browser:
        browser.open(path.as_uri())
        yield browser
        assert browser.errors == []


def call(browser, function, argument):
    """The result of a function of JavaScript, as JSON."""
    return json.loads(browser.run(f"JSON.stringify(({function})({json.dumps(argument)}))"))


def test_texts_have_the_same_words(browser, ranker):
    rows = [line.split("\t") for line in TABLE.read_text("utf-8").splitlines()[1:]]
    codes = {int(code, 16) + shift for row in rows for code in row[:2] for shift in (-1, 0, 1)}
    edges = [chr(code) for code in sorted(codes) if 0 <= code <= sys.maxunicode]
    choose = Random(0)
    # Two surrogates would be one character in JavaScript.
    letters = [edge for edge in edges if not "\ud800" <= edge <= "\udfff"]
    random = ["".join(choose.choices(letters, k=8)) for _ in range(2000)]
    composed = [
        "か\u3099は\u309aん\u3099",
        "\u1112\u1161\u11ab\u1100\u1161",
        "가\u11a8각\u11a8",
        "ｶﾞ",
    ]
    texts = [*QUERIES, *(f"a{edge}b" for edge in edges), *random, *composed]
    expected = [ranker.vocabulary.words(text) for text in texts]
    assert call(browser, "texts => texts.map(text => model.words.of(text))", texts) == expected


def test_words_have_the_same_letter_ngrams(browser):
    words = ["cat", "a", "ab", "𐐀b𐐁", "\ue000\U00010400a", "x" * 64, "虎穴"]
    expected = [letter_ngrams(word, 64, NGRAM_KINDS) for word in words]
    assert call(browser, "words => words.map(word => model.words.ngrams(word))", words) == expected


def test_all_titles_have_the_scores_and_ranks_of_the_model(browser, ranker, titles):
    ranking = "hits => hits.map(hit => [hit.title, hit.score])"
    script = f"queries => queries.map(query => model.rank(query)).map({ranking})"
    queries = [*QUERIES, *MISSPELLED]
    differences = []
    for query, ranked in zip(queries, call(browser, script, queries), strict=True):
        expected = dict(zip(titles, ranker.score(query, titles).tolist(), strict=True))
        differences += [abs(score - expected[title]) for title, score in ranked]
        in_order = [expected[title] for title, _ in ranked]
        assert in_order == approx(sorted(in_order, reverse=True), abs=TOLERANCE)
    assert len(differences) == len(queries) * len(titles)
    assert max(differences) < TOLERANCE


def test_the_parts_of_each_score_are_those_of_the_package(browser, ranker, titles):
    script = """queries => queries.map(query => model.rank(query).map(hit => {
      const { title, queryWords, titleWords, pairs, textCosine, prior, score } = hit;
      const groups = [queryWords, titleWords, pairs, hit.cosineWords()];
      return [title, groups.map(group => group.map(part => part.adds)), textCosine, prior, score];
    }))"""
    queries = [*QUERIES, *MISSPELLED]
    cosines = []
    for query, hits in zip(queries, call(browser, script, queries), strict=True):
        for title, groups, text_cosine, prior, score in hits:
            query_words, title_words, pairs, cosine_words, _ = ranker.word_matches(query, title)
            for group, parts in zip(
                groups, (query_words, title_words, pairs, cosine_words), strict=True
            ):
                assert group == approx([part.contribution for part in parts], abs=TOLERANCE)
            assert sum(groups[3]) == approx(text_cosine)
            assert sum(sum(group) for group in groups) + prior == approx(score)
            cosines.append(text_cosine)
    assert len(cosines) == len(queries) * len(titles)
    has_text_vectors = ranker.maxsim.text_vectors is not None
    assert (max(cosines) > 0.3) == (min(cosines) < -0.3) == has_text_vectors


def test_titles_with_equal_scores_stay_in_the_order_of_the_data(browser, titles):
    # The query has no letter n-gram of the model, so only the priors differ.
    ranked = call(browser, "query => model.rank(query).map(hit => hit.title)", "жук")
    equal = [title for title in titles if len(title) == len("shoe box")]  # their priors are equal
    assert len(equal) > 1
    assert [title for title in ranked if title in equal] == equal
    assert ranked != titles


def test_the_worked_example_has_its_score(tmp_path):
    # docs/maxsim.md: k0 * 0.896 + k1 * 0.663, with k0 = 1 and k1 = 0.3.
    path = tmp_path / "index.html"
    path.write_text(page_of(ranker_of(example_model()), ["red shoe box lid"]), "utf-8")
    with Browser() as browser:
        browser.open(path.as_uri())
        (hit,) = call(browser, "query => model.rank(query)", "crimson shoe box")
    assert hit["score"] == approx(1.095, abs=1e-3)
    crimson = hit["queryWords"][0]
    assert (crimson["match"], crimson["similarity"]) == ("red", approx(0.75, abs=1e-4))
    assert crimson["adds"] == approx(1.288 / 4.119, abs=1e-3)
    assert [word["match"] for word in hit["titleWords"]] == ["crimson", "shoe", "box", None]
    assert hit["pairs"] == [
        {"pair": "shoe box", "adds": approx(0.293 / 4.119 + 0.3 * 0.293 / 4.796, abs=1e-3)}
    ]


def test_parts_are_rounded_as_in_the_package(browser):
    rng = np.random.default_rng(0)
    lists = [rng.normal(size=size).tolist() for size in range(1, 40)]
    script = "lists => lists.map(([parts, total]) => roundedParts(parts, total, 3))"
    results = call(browser, script, [[parts, sum(parts)] for parts in lists])
    for parts, result in zip(lists, results, strict=True):
        expected = rounded_parts(dict(enumerate(parts)), sum(parts), 3)
        assert result == approx([*expected.values()])
