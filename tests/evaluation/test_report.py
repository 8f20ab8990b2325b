from html.parser import HTMLParser

import numpy as np
import pytest

from dssm_tf.evaluation.evaluate import evaluate
from dssm_tf.evaluation.report import gains_histogram, render
from dssm_tf.tables.judgments import CorpusTitle, Judgment

VOID = {"meta"}


class Checker(HTMLParser):
    """Fails on tags that do not close; keeps tags and links."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.links = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for key, value in attrs if key in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


class Ranker:
    name = "any"

    def __init__(self, seed):
        self.seed = seed

    def score_matrix(self, queries, titles):
        return np.random.default_rng(self.seed).normal(size=(len(queries), len(titles)))


@pytest.fixture
def evaluation():
    judgments = [
        Judgment(f"q{i}", f"query <{i}> & 'co'", f"d{i:02d}", f"title <script>{i}</script>", 1.0)
        for i in range(40)
    ]
    judgments.append(Judgment("q99", "nothing <i>good</i>", "d01", "title <script>1</script>", 0))
    corpus = [CorpusTitle(f"d{i:02d}", f"title <script>{i}</script>") for i in range(40)]
    return evaluate({"base": Ranker(0), "<b>new</b>": Ranker(1)}, judgments, corpus, samples=200)


def test_the_page_is_whole_and_needs_no_network(evaluation):
    html = render(evaluation)
    checker = Checker()
    checker.feed(html)
    assert checker.open == []
    assert checker.links == []
    assert "script" not in checker.tags
    assert "url(" not in html
    assert "@import" not in html
    assert {"table", "svg", "details", "figure"} <= set(checker.tags)


def test_texts_of_the_data_are_escaped(evaluation):
    html = render(evaluation)
    assert "<script>" not in html
    assert "<b>new" not in html
    assert "&lt;b&gt;new&lt;/b&gt;" in html
    assert "query &lt;" in html


def test_it_shows_means_tests_gains_losses_and_left_out_queries(evaluation):
    html = render(evaluation)
    assert f"{evaluation.mean('base', 'ndcg@3'):.3f}" in html
    for words in ("Largest gains", "Largest losses", "Best and worst queries of base", "95 %",
                  "p adjusted", "nothing &lt;i&gt;good&lt;/i&gt;", "gain 2^grade - 1"):  # fmt: skip
        assert words in html


def test_one_system_alone_has_a_page_without_comparisons(evaluation):
    alone = evaluate({"only": Ranker(0)}, evaluation.qrels())
    html = render(alone)
    assert "more than luck" not in html
    assert "Largest gains" not in html


def test_the_histogram_counts_every_query_once():
    differences = np.array([0.0, 0.0, 0.05, 0.95, 1.0, -1.0, -0.5])
    svg = gains_histogram(differences, "a", "b", "ndcg@10")
    # bins of 0.1: two queries in the last, one in each of three others
    assert svg.count("<rect") == 4
    assert ">2</text>" in svg
    assert "3 queries gained" in svg
    assert "2 lost" in svg
    assert "2 did not change" in svg
