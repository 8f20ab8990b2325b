"""The page of the demo: its content, and its search box in Chromium."""

from __future__ import annotations

import re

import numpy as np
import pytest
from pytest import approx

from dssm_tf.demo_page.model_data import model_data
from dssm_tf.runtime.maxsim_ranker import MaxSimRanker
from dssm_tf.runtime.search_rules import read_rules
from tests.browser import Browser
from tests.demo_page import pages
from tests.demo_page.pages import (
    HOSTILE,
    PAGE_TITLES,
    RESULTS,
    letters_model,
    page_of,
    ranker_of,
)
from tests.demo_page.test_scripts import MISSPELLED, QUERIES
from tests.reports.test_page import Checker

COSINE_ROWS = """[...document.querySelectorAll('#results table')].map(table => {
  const isCosine = body => body.innerText.startsWith('Both texts as a whole');
  const rows = [...table.tBodies].filter(isCosine).flatMap(body => [...body.rows].slice(1));
  return rows.map(row => [...row.cells].map(cell => cell.textContent));
})"""
"""In each open table, the rows about the cosine of text vectors: label and number of each."""


def ranker_with(text_cosine: float) -> MaxSimRanker:
    return ranker_of(letters_model(text_cosine=text_cosine), lambda title: -len(title) / 50)


@pytest.fixture(scope="module")
def ranker() -> MaxSimRanker:
    return ranker_with(text_cosine=0.5)


@pytest.fixture(scope="module")
def html(ranker) -> str:
    return page_of(ranker)


@pytest.fixture(scope="module")
def address(html, tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(html, "utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def address_without_text_vectors(tmp_path_factory) -> str:
    """The page of a model without text vectors."""
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(page_of(ranker_with(text_cosine=0.0)), "utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def shared_browser():
    with Browser() as browser:
        yield browser


@pytest.fixture
def browser(shared_browser, address):
    """The page, newly opened. It has no error and asks for no file."""
    shared_browser.resize(1200, 900)
    shared_browser.open(address)
    yield shared_browser
    assert shared_browser.run("performance.getEntriesByType('resource').length") == 0
    assert shared_browser.errors == []


def ask(browser, query: str) -> None:
    """Types a query into the empty search box."""
    browser.run("searchBox.value = ''; searchBox.focus()")
    if query:
        browser.type(query)
    else:
        browser.run("search()")


def test_the_page_is_well_formed_and_texts_are_escaped(html):
    checker = Checker(html)
    assert "img" not in checker.tags
    assert "src" not in checker.attributes
    assert not [name for name in checker.attributes if name.startswith("on")]
    assert "innerHTML" not in html
    assert html.count("&lt;/script&gt;&lt;!-- &lt;img") == 6
    for address in re.findall(r'href="([^"]*)"', html):
        assert address.startswith(("evaluation/", "runs/"))
    for number in ("3,709 clicks", "58 seconds", "±1.4 points", "1,998 other questions"):
        assert number in html


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(58.4, "in 58 seconds."), (119.4, "in 119 seconds."), (150.1, "in 3 minutes.")],
)
def test_a_long_training_is_in_minutes(monkeypatch, seconds, text):
    monkeypatch.setattr(pages, "RESULTS", RESULTS._replace(seconds=seconds))
    assert text in page_of(ranker_of(letters_model()))


def test_the_results_of_the_first_example_are_shown_at_once(browser):
    assert browser.run("searchBox.value") == "red shoe"
    assert browser.run("document.querySelectorAll('#results > li').length") == 3
    assert browser.run("document.querySelector('#results details').open")
    assert browser.run("document.querySelector('#results mark').textContent") in (
        "red",
        "Red",
        "shoe",
    )
    assert browser.run("document.querySelectorAll('[aria-pressed=true]').length") == 1


@pytest.mark.parametrize("page", ["address", "address_without_text_vectors"])
def test_the_shown_numbers_add_up_to_the_shown_score(browser, page, request):
    browser.open(request.getfixturevalue(page))
    script = """[...document.querySelectorAll('#results > li')].map(item => {
      item.querySelector('summary').click();
      const cells = [...item.querySelectorAll('.adds')].map(cell => cell.textContent);
      return [item.querySelector('.score').textContent, ...cells.reverse()];
    })"""
    sums = 0
    for query in [*QUERIES, *MISSPELLED]:
        ask(browser, query)
        browser.run("document.querySelectorAll('#results details').forEach(x => x.open = true)")
        browser.wait_for(
            "document.querySelectorAll('#results details:not(:has(table))').length == 0"
        )
        for head, score, *parts in browser.run(script):
            numbers = [float(text.replace("−", "-")) for text in (head, score, *parts)]
            assert numbers[0] == numbers[1]
            assert round(1000 * sum(numbers[2:])) == round(1000 * numbers[0])
            sums += 1
    assert sums > 100


def test_the_cosine_is_shown_by_words_and_small_parts_share_a_row(browser, ranker):
    query = "a red shoe for walla walla in a box with blue lids"
    ask(browser, query)
    browser.run("document.querySelectorAll('#results details').forEach(x => x.open = true)")
    browser.wait_for("document.querySelectorAll('#results table').length == 3")
    titles = browser.run(
        "[...document.querySelectorAll('#results .title')].map(x => x.textContent.trim())"
    )
    shared_rows = 0
    for title, rows in zip(titles, browser.run(COSINE_ROWS), strict=True):
        parts = ranker.word_matches(query, title).text_cosine
        expected = {part.word: part.contribution for part in parts if abs(part[1]) >= 0.02}
        others = [part for part in parts if part.word not in expected]
        if others:
            label = "together: " * (len(others) > 1) + ", ".join(part.word for part in others)
            expected[label] = sum(part.contribution for part in others)
            shared_rows += len(others) > 1
        assert [label for label, _ in rows] == [*expected]
        numbers = [float(number.replace("−", "-")) for _, number in rows]
        assert numbers == approx([*expected.values()], abs=0.0011)  # rounded so that all add up
    assert shared_rows


def test_a_cosine_of_0_is_not_shown(browser, address_without_text_vectors):
    assert all(browser.run(COSINE_ROWS))
    browser.open(address_without_text_vectors)
    assert browser.run("document.querySelectorAll('#results table').length") == 1
    assert browser.run(COSINE_ROWS) == [[]]


def test_words_show_their_matches(browser):
    ask(browser, "shoe runing")
    line = browser.run("document.querySelector('#results .words').innerText")
    assert re.search(r"runing → running \.\d\d", line)
    ask(browser, "red shoe")
    marked = browser.run(
        "[...document.querySelectorAll('#results mark.same')].map(x => x.textContent)"
    )
    assert {"red", "shoe"} <= {*map(str.lower, marked)}


def test_words_that_are_hardly_similar_are_in_the_table_only(browser):
    """The word red is made similar to lids by just less and just more than 0.2."""
    displayed_words = "document.querySelector('#results .words').innerText"
    for similarity, is_marked in ((0.19, False), (0.21, True)):
        similar = f"new Map([['lids', {similarity}]])"
        browser.run(f"model.cachedSimilarWords.set('red', {similar})")
        ask(browser, "red")
        assert ("lids" in browser.run(displayed_words)) == is_marked
        assert browser.run("!!document.querySelector('#results mark.near')") == is_marked
        table = browser.run("document.querySelector('#results table').innerText")
        assert f"red\tlids\t{similarity}" in table


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", "Type a question, or choose an example."),
        ("?!", "The question has no word."),
        (
            "жук",
            "Nothing was found: no title has a word that is similar to a word of the question.",
        ),
        ("red shoe", f"The best 3 of {len(PAGE_TITLES)} titles, in "),
    ],
)
def test_a_message_describes_the_results(browser, query, message):
    ask(browser, query)
    assert browser.run("document.getElementById('status').textContent").startswith(message)
    assert browser.run("document.querySelectorAll('#results > li').length") == 3 * (
        "best" in message
    )


def test_a_message_says_that_no_match_is_good(browser):
    browser.run("model.data.cutoff = 10")
    ask(browser, "red shoe")  # a title has all words
    assert "The best 3" in browser.run("document.getElementById('status').textContent")
    ask(browser, "red hat")
    assert "No good match" in browser.run("document.getElementById('status').textContent")


def test_texts_are_never_read_as_html(browser):
    ask(browser, f"box {HOSTILE}")
    title = browser.run("document.querySelector('#results .title').textContent")
    assert title.split() == f"box {HOSTILE}".split()
    assert browser.run("document.images.length") == 0
    assert browser.run("document.querySelectorAll('script').length") == 4


def test_the_page_works_with_the_keyboard(browser):
    browser.run("document.activeElement.blur()")
    browser.press("/")
    assert browser.run("document.activeElement.id") == "q"
    assert browser.run("searchBox.value") == "red shoe"  # without the slash
    browser.press("Tab")
    browser.press("Tab")
    assert browser.run("document.activeElement.value") == "runing shoess"
    browser.press("Enter")
    assert browser.run("searchBox.value") == "runing shoess"
    assert browser.run("document.activeElement.getAttribute('aria-pressed')") == "true"
    browser.press("Tab")
    browser.press("Tab")
    assert browser.run("document.activeElement.tagName") == "SUMMARY"
    browser.press("Enter")
    browser.wait_for("!document.querySelector('#results details').open")
    browser.press("Tab")
    browser.press("Enter")
    browser.wait_for("document.querySelectorAll('#results li:nth-child(2) table').length == 1")


@pytest.mark.parametrize("width", [1200, 390, 320])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_the_screen_in_both_color_schemes(browser, address, width, scheme):
    browser.use_colors(scheme)
    browser.resize(width, 800)
    browser.open(address)
    browser.run("document.querySelectorAll('details').forEach(x => x.open = true)")
    browser.wait_for("document.querySelectorAll('#results table').length == 3")
    assert browser.run("document.documentElement.scrollWidth") == width
    if width > 320:  # on smaller screens, the table scrolls
        table = "document.getElementById('measured')"
        assert browser.run(f"{table}.offsetWidth <= {table}.parentElement.clientWidth")
    color = browser.run("getComputedStyle(document.body).backgroundColor")
    red = int(re.search(r"\d+", color)[0])
    assert red > 240 if scheme == "light" else red < 40
    browser.use_colors("light")


def test_a_model_with_a_part_that_the_script_lacks_is_refused(write):
    model = letters_model()
    rules = read_rules(write("rules.tsv", "never\tred\tlid\n"), model.vocabulary)
    with pytest.raises(ValueError, match="the page shows models without them"):
        model_data(ranker_of(model.with_rules(rules)), PAGE_TITLES)


def test_a_row_of_zeros_stays_zero():
    model = letters_model()
    model.kernel[1] = model.text_vectors.kernel[1] = 0
    data = model_data(ranker_of(model), PAGE_TITLES)
    assert np.isfinite(data["priors"]).all()
    assert data["word_vectors"]["scales"].startswith("AAAAA")
    assert data["text_vectors"]["scales"].startswith("AAAAA")
