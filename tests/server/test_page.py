"""The search page: its content, escaping of texts, and keyboard control."""

from __future__ import annotations

import http.client
import json
import re
from html.parser import HTMLParser
from urllib.parse import urlencode

import pytest

from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.retrieval.hits import SYSTEMS
from dssm_tf.retrieval.index import VectorIndex
from dssm_tf.runtime import CompactRanker
from dssm_tf.server.models import ServedModel
from dssm_tf.server.page import render
from dssm_tf.server.server import Server
from dssm_tf.tables.judgments import CorpusTitle
from tests.browser import Browser
from tests.server.asking import rest

# Whether the title of the third hit is visible, and not covered by another element.
ON_TOP = """(() => {
  const hit = document.getElementById("semantic-3");
  const box = hit.querySelector(".title").getBoundingClientRect();
  return hit.contains(document.elementFromPoint(box.left + 5, box.top + 5));
})()"""
TEXT = "document.getElementById('results').innerText.replace(/\\s+/g, ' ').trim()"
EVIL = '<script>alert(1)</script> "fox" onmouseover=x'
CORPUS = [
    CorpusTitle("t1", "Red Fox"),
    CorpusTitle("t2", "green owl"),
    CorpusTitle("t3", "Black Bear & Red Panda"),
    CorpusTitle('t"4', EVIL),
    CorpusTitle("t5", "redder foxes"),
]


@pytest.fixture(scope="module")
def index(compact):
    return VectorIndex.build(CompactRanker.load(compact), CORPUS)


@pytest.fixture(scope="module")
def search(index):
    """Returns a function that renders and parses the page of a query."""

    def search(query: str = "", why: str = "", system: str = "") -> ParsedPage:
        return ParsedPage(render(index, query, why, system, "1"))

    return search


class ParsedPage(HTMLParser):
    """The tags and attributes of a page, and its texts by the ids of the enclosing elements."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html, self.tags, self._open = html, [], []
        self.texts: dict[str, str] = {}
        self.marks: set[str] = set()
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.tags.append((tag, values))
        if tag not in ("input", "meta"):
            self._open.append((tag, values.get("id")))

    def handle_endtag(self, tag):
        assert self._open.pop()[0] == tag

    def handle_data(self, data):
        for _, name in self._open:
            if name:
                self.texts[name] = self.texts.get(name, "") + data
        if self._open and self._open[-1][0] == "mark":
            self.marks.add(data)

    def titles(self, system: str) -> list[str]:
        """Doc ids of a ranking's hits."""
        links = [values for tag, values in self.tags if values.get("class") == "why"]
        hrefs = [link["href"] for link in links if link["id"].startswith(f"{system}-")]
        return [href.partition("why=")[2].partition("&")[0] for href in hrefs]


def test_the_rankings_equal_those_of_the_run(run, search):
    index = VectorIndex.build(SemanticRanker.load(run), CORPUS)
    for query in ("fox", "red bear", "owls", "an owl or a fox"):
        page = search(query)
        for system, hits in index.search(query).rankings.items():
            expected = [hit.doc_id for hit in hits]
            assert [doc_id.replace("%22", '"') for doc_id in page.titles(system)] == expected
            if hits:
                assert hits[0].score_breakdown().replace(",", "") in page.texts[f"{system}-1"]


def test_words_of_the_query_are_marked(search):
    assert search("red foxe").marks == {"Red"}


def test_the_page_without_a_query_asks_for_one(search):
    page = search("  ")
    assert "Type a query" in page.texts["results"]
    assert "5 titles, model pets" in page.html
    assert search("fox").html.count("5 titles, model pets") == 1


def test_the_page_reports_that_nothing_was_found(search):
    for query in ("xqzt", "?!"):
        assert "Nothing was found" in search(query).texts["results"]


@pytest.mark.parametrize(
    ("query", "cutoff", "good"),
    [
        ("tiger fox", 1.1, False),
        ("tiger fox", -1.0, True),
        ("red fox", 1.1, True),  # all words are in a title
    ],
)
def test_poor_results_are_reported_and_collapsed(index, search, monkeypatch, query, cutoff, good):
    monkeypatch.setattr(index.model, "cutoff", cutoff)
    page = search(query)
    assert ("No good match was found" in page.texts["results"]) != good
    assert ("details" in {tag for tag, _ in page.tags}) != good
    assert page.titles("semantic")  # the rankings are still in the page
    # The collapsed rankings open to show an explanation.
    page = search(query, why="t1", system="semantic")
    details = [values for tag, values in page.tags if tag == "details"]
    assert details == [{"id": "poor", "open": None}] * (not good)


def test_a_long_query_is_truncated(search):
    (box,) = [values for _, values in search("x" * 1_000_000).tags if values.get("id") == "q"]
    assert box["value"] == "x" * 1000


@pytest.mark.parametrize("query", [EVIL, "'\"><img src=x>", "&amp; <fox>", "\x00 fox", "fox\udcff"])
def test_texts_are_escaped(search, query):
    for page in (search(query), search(query, why='t"4', system="semantic")):
        assert [tag for tag, _ in page.tags].count("script") == 1
        assert {tag for tag, _ in page.tags}.isdisjoint({"img", "iframe", "object", "link", "base"})
        for name, value in (pair for _, values in page.tags for pair in values.items()):
            assert not name.startswith("on")
            assert name != "src"
            assert name != "style" or re.fullmatch(r"text-align:(left|right)", value)
        # No links to other sites, and nothing is loaded.
        links = [values["href"] for tag, values in page.tags if tag == "a"]
        assert all(link.startswith(("/?", "#")) for link in links)
    (value,) = [values["value"] for tag, values in page.tags if values.get("id") == "q"]
    assert value == query.replace("\udcff", "\N{REPLACEMENT CHARACTER}").strip()


def test_the_policy_allows_only_the_script_of_the_page(search):
    policy = next(values["content"] for tag, values in search("fox").tags if "content" in values
                  and "default-src" in values["content"])  # fmt: skip
    assert policy.startswith("default-src 'none'; ")
    assert "script-src 'sha256-" in policy
    assert "unsafe-inline" not in policy.partition("script-src")[2]


@pytest.mark.parametrize("system", SYSTEMS)
def test_an_explanation_is_shown_at_its_hit(search, system):
    page = search("red foxe", why="t1", system=system)
    # The link of an open explanation closes it, so it names no title.
    (rank,) = [n for n, name in enumerate(page.titles(system), 1) if name in ("t1", "")]
    text = page.texts[f"{system}-{rank}"]
    assert "'red' is in the title" in text
    assert text.count("Contributions are Shapley values.") == 1
    opened = [values for _, values in page.tags if values.get("aria-expanded") == "true"]
    assert [values["id"] for values in opened] == [f"{system}-{rank}-why"]
    assert "why=&" in opened[0]["href"]


def test_a_title_that_is_not_a_hit_has_no_explanation(search):
    page = search("fox", why="t99", system="bm25")
    assert "true" not in {values.get("aria-expanded") for _, values in page.tags}


def test_the_line_of_a_hit_and_its_explanation_have_the_same_parts_of_the_score(index, search):
    ranker = index.model
    lift = ranker.weighted_prior(["Red Fox"])[0] - ranker.mean_prior
    assert lift > 0  # it has the most clicks
    cosine = float(ranker.encode_queries(["red fox"])[0] @ ranker.encode_titles(["Red Fox"])[0])
    prior = float(ranker.weighted_prior(["Red Fox"])[0])
    page = search("red fox", why="t1", system="semantic")
    score = f"core {cosine + prior:.3f}"
    results = page.texts["results"]
    assert f"S{score}: similarity {cosine:.3f} (the cosine), prior {prior:+.3f}" in results
    assert f"Popularity {lift:+.3f}: the prior minus that of the average clicked title" in results
    short = f"s{score} similarity {cosine:.3f} prior {prior:+.3f}"
    assert short in page.texts["semantic-1"].partition("why")[0]  # the line of the hit
    assert "(the cosine)" not in search("red fox", why="t1", system="bm25").html


def test_texts_too_long_to_explain_have_a_message(search):
    text = search("red " * 100, why="t1", system="semantic").texts["results"]
    assert "Only pairs with at most 64 words are explained." in text


def test_a_corpus_of_one_title_can_be_searched(index):
    page = ParsedPage(render(VectorIndex.build(index.model, CORPUS[:1]), "red fox", "", "", "1"))
    assert [page.titles(system) for system in SYSTEMS] == [["t1"]] * 2


def server_of(index) -> Server:
    return Server([ServedModel("pets", 1, index.model)], port=0, rest_port=0, index=index)


@pytest.mark.serving
def test_the_keys_and_the_script_work_in_a_browser(index):
    with server_of(index) as server, Browser() as browser:
        browser.open(f"http://{server.rest_address}/")
        browser.wait_for("document.activeElement.id == 'q'")
        browser.type("red foxe")
        browser.wait_for("document.querySelectorAll('#semantic li').length == 5")
        assert browser.run("location.search") == "?q=red+foxe"
        assert browser.run("document.getElementById('bm25')") is None
        browser.run("document.getElementById('compare').click()")
        browser.wait_for("document.querySelectorAll('#bm25 li').length > 0")
        browser.press("ArrowDown")
        assert browser.run("document.activeElement.id") == "semantic-1-why"
        browser.press("ArrowRight")
        assert browser.run("document.activeElement.id") == "bm25-1-why"
        browser.press("ArrowLeft")
        browser.press("ArrowDown")
        assert browser.run("document.activeElement.id") == "semantic-2-why"
        browser.press("Enter")
        browser.wait_for("document.querySelector('#semantic-2 .because li') != null")
        # The explanation does not move the focus.
        assert browser.run("document.activeElement.id") == "semantic-2-why"
        # An explained hit is visible and not covered, also on a phone.
        browser.resize(500, 300)
        for shift in (-400, 400):
            browser.run("document.getElementById('semantic-3').scrollIntoView()")
            browser.run(f"window.scrollBy(0, {shift})")
            browser.run("document.getElementById('semantic-3-why').click()")
            opened = "true" if shift < 0 else "false"
            browser.wait_for(f"!!document.querySelector('#semantic-3 .because') == {opened}")
            assert browser.run(ON_TOP)
        browser.press("/")
        assert browser.run("document.activeElement.id") == "q"
        browser.run("history.go(-2)")
        browser.wait_for("document.querySelector('#semantic-2 .because li') != null")
        assert browser.errors == []
        # The page is not wider than a phone.
        browser.resize(500, 900)
        assert browser.run("document.documentElement.scrollWidth") <= 500
        server.__exit__()
        browser.type("x")
        browser.wait_for("document.getElementById('failed').textContent.includes('not answer')")


def test_the_page_is_served_over_http(index):
    with server_of(index) as server:
        connection = http.client.HTTPConnection(server.rest_address, timeout=60)
        connection.request("GET", "/?q=fox%FF")
        response = connection.getresponse()
        assert (response.status, response.getheader("Cache-Control")) == (200, "no-store")
        assert b"Red <mark>Fox</mark>" in response.read()
        connection.request("HEAD", "/?q=fox")
        assert connection.getresponse().read() == b""
        connection.close()
        assert 'api="page",status="OK"} 2.0' in rest(server.rest_address, "/metrics")[1]


@pytest.mark.long
@pytest.mark.serving
@pytest.mark.parametrize("bm25", ["", "1"])
def test_the_script_shows_what_the_server_renders(index, bm25):
    with server_of(index) as server, Browser() as browser:
        for query in ("red foxe", 'script "fox', "xqzt", ""):
            for why in ("", "&why=t1&in=semantic"):
                address = "/?" + urlencode({"q": query, "bm25": bm25}) + why
                browser.open(f"http://{server.rest_address}{address}")
                rendered = browser.run(TEXT)
                browser.run("document.getElementById('results').replaceChildren()")
                browser.run(f"show({json.dumps(address)}, false)")
                browser.wait_for("document.querySelector('#results > *') != null")
                assert browser.run(TEXT) == rendered
        assert browser.errors == []
