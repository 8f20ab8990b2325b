"""The search page of a maxsim model: matched words, parts of scores, rules, BM25 on request."""

from __future__ import annotations

import re

import pytest
from pytest import approx

from dssm_tf.cli import main
from dssm_tf.retrieval.hits import SHOWN_CHARACTERS
from dssm_tf.retrieval.maxsim_index import MaxSimIndex
from dssm_tf.retrieval.opening import open_index
from dssm_tf.server.models import ServedModel
from dssm_tf.server.page import render
from dssm_tf.server.server import Server
from dssm_tf.tables.judgments import CorpusTitle, write_corpus
from tests.browser import Browser
from tests.retrieval.maxsim.conftest import corpus_of, ranker_of
from tests.runtime.maxsim_models import example_model, random_model, write_compact_model
from tests.server.test_page import EVIL, ParsedPage

pytest.importorskip("numba")

LONG = "lid " + "x" * 300 + " box"
TITLES = ["Red, shoe BOX lid", "box of shoes", EVIL, LONG]
RULES = "similar\tgf\tshoe\t0.9\nnever\tred\tlid\npin\tshoe box\tcrimson lid\nblock\tshoe box\td1\n"


@pytest.fixture(scope="module")
def index():
    return MaxSimIndex.build(ranker_of(example_model()), corpus_of(TITLES))


@pytest.fixture(scope="module")
def cosine_index():
    """An index of a model with text vectors."""
    return MaxSimIndex.build(ranker_of(random_model(TITLES)), corpus_of(TITLES))


@pytest.fixture(scope="module")
def ruled(tmp_path_factory):
    """An index with rules by hand."""
    folder = tmp_path_factory.mktemp("ruled")
    write_compact_model(example_model(), folder / "model", {"crimson lid": -1.5})
    write_corpus(folder / "corpus.tsv", corpus_of([*TITLES[:2], "crimson lid"]))
    (folder / "rules.tsv").write_text(RULES, "utf-8")
    flags = [("model", "model"), ("corpus", "corpus.tsv"), ("rules", "rules.tsv"), ("out", "index")]
    assert (
        main(["index", *(x for flag, name in flags for x in (f"--{flag}", str(folder / name)))])
        == 0
    )
    return open_index(folder / "index")


def page_of(index, *arguments: str) -> ParsedPage:
    return ParsedPage(render(index, *arguments))


def test_words_are_shown_with_the_title_words_that_they_match(index):
    page = page_of(index, "crimson shoe kite")
    text = " ".join(page.texts["semantic-1"].split())
    # The example of docs/maxsim.md: the similarity of crimson and red is 0.75.
    assert "crimson → Red .75" in text
    assert "kite" in text
    assert '<span class="missing">kite</span>' in page.html
    assert "<span><mark>shoe</mark></span>" in page.html
    assert "<mark>Red,</mark> <mark>shoe</mark> BOX lid" in page.html


def test_the_shown_parts_add_up_to_the_shown_score(index, cosine_index, ruled):
    for searched, query in [
        (index, "crimson shoe box"),
        (index, "red lid"),
        (ruled, "red lid box"),
        (cosine_index, "red shoe box"),
        (cosine_index, "lid of a box"),
    ]:
        hits = searched.search(query).rankings["semantic"]
        page = page_of(searched, query)
        for rank, hit in enumerate(hits, 1):
            line = " ".join(page.texts[f"semantic-{rank}"].split())
            score = float(re.search(r"score (-?\d\.\d{3}):", line)[1])
            parts = line.rpartition("score ")[2]
            total = sum(map(float, re.findall(r" [a-z ]+ ([+-]\d\.\d{3})", parts)))
            assert total == approx(score, abs=1e-9)
            assert score == approx(hit.score, abs=5.001e-4)
            assert ("prior" in line) == (round(hit.prior, 3) != 0)
            cosine = sum(part.contribution for part in hit.matches.text_cosine)
            assert ("text cosine" in line) == (round(cosine, 3) != 0)
    assert cosine  # of the last index


def test_applied_rules_are_shown(ruled):
    page = page_of(ruled, "shoe box")
    assert "pinned by rule in line 3" in page.texts["semantic-1"]
    assert "Blocked by line 4 of the rules" in page.texts["results"]
    assert "gf → shoe .90" in " ".join(page_of(ruled, "gf").texts["semantic-1"].split())
    assert "by rule in line 1" in page_of(ruled, "gf").texts["semantic-1"]
    assert "red not lid by rule in line 2" in page_of(ruled, "red").texts["semantic-1"]


def test_bm25_is_shown_on_request_only(index):
    page = page_of(index, "shoe box")
    assert "bm25" not in page.texts
    assert 'id="compare" href="/?q=shoe+box&amp;bm25=1">Compare with BM25' in page.html
    page = page_of(index, "shoe box", "", "", "1")
    expected = index.bm25.score("shoe box", TITLES)
    ids = page.titles("bm25")
    assert ids == ["d0", "d1", "d3"]
    assert f"BM25 {expected[0]:.1f}" in page.texts["bm25-1"]
    assert 'href="/?q=shoe+box">Hide BM25' in page.html
    # Links keep the column.
    links = [values["href"] for tag, values in page.tags if values.get("class") == "why"]
    assert all("bm25=1" in link for link in links)
    opened = page_of(index, "shoe box", "d1", "bm25", "1")
    assert "'box' is in the title" in opened.texts["bm25-2"]  # why the model has another order


def test_bm25_scores_equal_those_of_the_baseline(index):
    for query in ("shoe", "red box of lid", "shoe shoe"):
        expected = index.bm25.score(query, TITLES)
        for hit in index.lexical_ranking.search(query):
            assert hit.score == approx(expected[int(hit.doc_id[1:])], rel=1e-6)
    assert index.lexical_ranking.search("kite") == []


def test_an_explanation_opens_in_the_ranking_of_the_model(index):
    page = page_of(index, "crimson shoe", "d0", "semantic")
    assert "'crimson' matches 'red' in the title" in page.texts["semantic-1"]
    assert page_of(index, "crimson shoe", "d0").texts["semantic-1"] == page.texts["semantic-1"]


def test_an_explanation_shows_the_text_cosine_of_a_model_with_text_vectors(index, cosine_index):
    (cosine,) = (
        hit.parts()["text cosine"]
        for hit in cosine_index.search("red shoe").rankings["semantic"]
        if hit.doc_id == "d0"
    )
    explained = page_of(cosine_index, "red shoe", "d0", "semantic").texts["results"]
    assert f"Text cosine {cosine:+.3f}, which compares both texts as a whole: '" in explained
    assert "ext cosine" not in page_of(index, "red shoe", "d0", "semantic").texts["results"]


def test_the_empty_page_has_example_queries_that_are_links(index):
    page = page_of(index)
    assert "Type a query, or try one of these:" in page.texts["results"]
    links = [values["href"] for tag, values in page.tags if tag == "a"]
    assert len({*links}) == len(index.example_queries) > 1
    assert len(links) == 2 * len({*links})  # shown, and in the template of the script
    assert all(link.startswith("/?q=") for link in links)
    assert (
        "examples" not in page_of(index, "red").html.partition("<body>")[2].partition("<style>")[0]
    )


def test_long_titles_are_cut(index):
    page = page_of(index, "lid")
    assert LONG[: SHOWN_CHARACTERS - 1] + "…" in " ".join(
        page.html.replace("<mark>", "").replace("</mark>", "").split()
    )
    assert "x" * SHOWN_CHARACTERS not in page.html


def test_a_title_of_a_megabyte_makes_a_small_page(index):
    searched = MaxSimIndex.build(index.model, [CorpusTitle("big", "red shoe " * 110_000)])
    assert len(render(searched, "red shoe")) < 40_000


@pytest.mark.parametrize("query", [EVIL, "'\"><img src=x>", "&amp; <fox>", "\x00 fox", "red\udcff"])
def test_texts_are_escaped(index, query):
    for arguments in [("", ""), ("d2", "semantic"), ("d2", "semantic", "1")]:
        page = page_of(index, query, *arguments)
        assert [tag for tag, _ in page.tags].count("script") == 1
        assert {tag for tag, _ in page.tags}.isdisjoint({"img", "iframe", "object", "link", "base"})
        for name, value in (pair for _, values in page.tags for pair in values.items()):
            assert not name.startswith("on")
            assert name != "style" or re.fullmatch(r"text-align:(left|right)", value)


@pytest.mark.long
@pytest.mark.serving
def test_the_page_works_in_a_browser_at_two_widths(index):
    served = [ServedModel("shop", 1, index.model)]
    with Server(served, port=0, rest_port=0, index=index) as server, Browser() as browser:
        for width, height in ((1200, 900), (390, 800)):
            browser.resize(width, height)
            browser.open(f"http://{server.rest_address}/")
            assert browser.run("document.querySelectorAll('.examples a').length") > 1
            browser.run("document.getElementById('q').focus()")
            browser.type("crimson shoe")
            browser.wait_for("document.querySelectorAll('#semantic li').length > 0")
            assert browser.run("document.getElementById('bm25')") is None
            browser.run("document.getElementById('compare').click()")
            browser.wait_for("document.querySelectorAll('#bm25 li').length > 0")
            assert browser.run("location.search") == "?q=crimson+shoe&bm25=1"
            left = "getBoundingClientRect().left"
            indent = f"bm25.{left} - semantic.{left}"
            assert (browser.run(indent) > 0) == (
                width == 1200
            )  # side by side, or one below the other
            browser.type("s")
            browser.wait_for("location.search == '?q=crimson+shoes&bm25=1'")
            assert browser.run("document.documentElement.scrollWidth") <= width
            browser.run("document.getElementById('compare').click()")
            browser.wait_for("document.getElementById('bm25') == null")
        assert browser.errors == []
